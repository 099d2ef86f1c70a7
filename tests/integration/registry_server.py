"""A schema registry for tests: Confluent's REST interface over a file, as a process of its own that can be killed.

``python -m tests.integration.registry_server PORT FILE [USER:PASSWORD [CERTIFICATE KEY]]``
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from nodes.local_kafka.process import free_port
from tests.integration.processes import Child

NOT_FOUND = {40401: "Subject not found.", 40402: "Version not found.", 40403: "Schema not found"}


class SchemaFile:
    """Schemas by id, and the ids of a subject's versions; kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.schemas: dict[str, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        if path.exists():
            found = json.loads(path.read_text())
            self.schemas, self.subjects = found["schemas"], found["subjects"]

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """The id of a schema; the same one where it is there already."""
        kept = {key: schema[key] for key in ("schema", "schemaType", "references") if schema.get(key)}
        known = [int(id) for id, one in self.schemas.items() if one == kept]
        id = known[0] if known else len(self.schemas) + 1
        self.schemas[str(id)] = kept
        versions = self.subjects.setdefault(subject, [])
        if id not in versions:
            versions.append(id)
        self._path.write_text(json.dumps({"schemas": self.schemas, "subjects": self.subjects}))
        return id


class Handler(BaseHTTPRequestHandler):
    """The requests that serializers and readers make."""

    protocol_version = "HTTP/1.1"
    file: SchemaFile
    password: str | None = None

    def do_GET(self) -> None:
        match [unquote(part) for part in urlsplit(self.path).path.split("/")[1:]]:
            case ["schemas", "ids", id]:
                found = self.file.schemas.get(id)
                self._answer(40403 if found is None else 200, found)
            case ["subjects", subject, "versions", version]:
                versions = self.file.subjects.get(subject, [])
                number = len(versions) if version == "latest" else int(version)
                if not 0 < number <= len(versions):
                    self._answer(40402)
                else:
                    id = versions[number - 1]
                    self._answer(200, {"subject": subject, "version": number, "id": id, **self.file.schemas[str(id)]})
            case _:
                self._answer(404)

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match [unquote(part) for part in urlsplit(self.path).path.split("/")[1:]]:
            case ["subjects", subject, "versions"]:
                self._answer(200, {"id": self.file.register(subject, given)})
            case ["subjects", _]:
                self._answer(40403)
            case _:
                self._answer(404)

    def _answer(self, status: int, body: Any = None) -> None:
        if self.password is not None:
            wanted = f"Basic {base64.b64encode(self.password.encode()).decode()}"
            if self.headers.get("Authorization") != wanted:
                status, body = 401, {"error_code": 401, "message": "Unauthorized"}
        if status in NOT_FOUND:
            status, body = 404, {"error_code": status, "message": NOT_FOUND[status]}
        text = json.dumps(body).encode() if body is not None else b"<html>no such page</html>"
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


class RegistryProcess:
    """A registry on a free port of this machine; ``away`` kills it, ``back`` starts it again with what it knew."""

    def __init__(self, file: Path, *arguments: str) -> None:
        self.port = free_port()
        self._file, self._arguments = file, arguments
        self._child: Child | None = None
        self.back()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def register(self, subject: str, schema: str, type: str = "AVRO", references: Any = ()) -> int:
        """The id that the registry gives to a schema."""
        body = {"schema": schema, "references": list(references)} | ({} if type == "AVRO" else {"schemaType": type})
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            return int(json.loads(answer.read())["id"])

    def back(self) -> None:
        self._child = Child("tests.integration.registry_server", self.port, self._file, *self._arguments)
        assert self._child.line() == "ready"

    def away(self) -> None:
        if self._child is not None:
            self._child.process.kill()
            self._child.finish()
            self._child = None


def main(port: str, file: str, password: str = "", certificate: str = "", key: str = "") -> None:
    Handler.file = SchemaFile(Path(file))
    Handler.password = password or None
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
