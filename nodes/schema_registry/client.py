"""The registry's protocol: schemas by id, and those that they refer to (Confluent's REST interface)."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Mapping
from contextlib import closing
from urllib.parse import quote, urlsplit

import msgspec

from holon.formats.registry import FoundSchema, RegisteredSchema, UnknownSchema
from nodes.errors import Unreachable
from nodes.settings.kafka_properties import is_loopback
from nodes.settings.schema_registry import RegistrySettings

ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
MAX_BYTES = 16 << 20
MAX_REFERENCES = 256
SCHEMA_NOT_FOUND = 40403
"""The registry's own word for it: any other 404 is of a proxy, or of a wrong path."""


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Answer(msgspec.Struct, rename={"type": "schemaType"}):
    """Of ``/schemas/ids/ID``, and of ``/subjects/SUBJECT/versions/VERSION``."""

    schema: str
    type: str = "AVRO"
    references: list[_Reference] = []


class _Refusal(msgspec.Struct):
    error_code: int = 0
    message: str = ""


class RegistryClient:
    """Sends requests to one registry. None follows a redirect: the password would go where the registry says."""

    def __init__(self, url: str, settings: RegistrySettings) -> None:
        self.url = url
        self._parts = urlsplit(url)
        self._timeout_s = settings.timeout_ms / 1000
        self._settings = settings
        self._requested = 0

    def fetch(self, id: int) -> FoundSchema:
        """The schema of an id, with all that it refers to. Raises ``Unreachable`` if the registry does not say."""
        self._requested = 0
        body = self._get(f"/schemas/ids/{id}", may_lack=True)
        return UnknownSchema() if body is None else self._schema(body)

    def _schema(self, body: bytes) -> RegisteredSchema:
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._failed(f"its answer is none of a schema registry: {error}") from None
        references = []
        for one in answer.references:
            self._requested += 1
            if self._requested > MAX_REFERENCES:
                raise self._failed(f"a schema refers to more than {MAX_REFERENCES} others")
            path = f"/subjects/{quote(one.subject, safe='')}/versions/{one.version}?deleted=true"
            found = self._get(path, may_lack=False)
            assert found is not None
            references.append((one.name, self._schema(found)))
        return RegisteredSchema(answer.schema, answer.type, tuple(references))

    def _get(self, path: str, *, may_lack: bool) -> bytes | None:
        """The body of an answer; None if there is no such schema."""
        try:
            with closing(self._connection()) as connection:
                connection.request("GET", self._parts.path + path, headers=self._headers())
                answer = connection.getresponse()
                status, body = answer.status, answer.read(MAX_BYTES + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._failed(str(error) or type(error).__name__) from error
        if len(body) > MAX_BYTES:
            raise self._failed(f"its answer has more than {MAX_BYTES >> 20} MB")
        if status == 200:
            return body
        refusal = _refusal(body)
        if status == 404 and may_lack and refusal.error_code == SCHEMA_NOT_FOUND:
            return None
        said = f" ({refusal.message:.200})" if refusal.message else ""
        raise self._failed(f"HTTP {status}{said}{_HELP.get(status, '')}")

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            if self._settings.password is not None and not is_loopback(self.url) and not self._settings.allow_http:
                raise self._failed(
                    "the password would cross the network unencrypted: use https, or set "
                    "schema_registry.allow_http=true"
                )
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        settings = self._settings
        trusted = ssl.create_default_context(cafile=settings.ca_file)
        if settings.certificate_file is not None:
            trusted.load_cert_chain(settings.certificate_file, settings.key_file)
        return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=trusted)

    def _headers(self) -> Mapping[str, str]:
        headers = {"Accept": ACCEPT}
        if self._settings.username is not None or self._settings.password is not None:
            password = "" if self._settings.password is None else self._settings.password.get_secret_value()
            pair = f"{self._settings.username or ''}:{password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        return headers

    def _failed(self, why: str) -> Unreachable:
        return Unreachable(f"the schema registry {self.url} does not answer: {why}")


_HELP = {
    401: "; set schema_registry.username and schema_registry.password",
    403: "; the user may not read schemas",
    404: "; is this the address of a schema registry?",
}


def _refusal(body: bytes) -> _Refusal:
    try:
        return msgspec.json.decode(body, type=_Refusal)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Refusal()
