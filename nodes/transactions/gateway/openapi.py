"""The HTTP gateway's interface, as an OpenAPI 3.1 document."""

from __future__ import annotations

from typing import Any


def _answer(what: str, schema: str) -> dict[str, Any]:
    return {
        "description": what,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


_CALL: dict[str, Any] = {
    "operationId": "call",
    "summary": "Call a function of an entity, as one serializable transaction",
    "description": "With the same id it is answered alike, and runs at most once: while the id is known, and for ever "
    "where it is one of POST /v1/id, or since is given. What JSON would change is sent in MessagePack or not at all.",
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "maxLength": 200},
            "description": "Another way to give the id.",
        }
    ],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Call"}}},
    },
    "responses": {
        "200": _answer("The transaction is committed.", "Result"),
        "404": _answer("There is no such operator or function.", "Aborted"),
        "406": _answer(
            "The transaction has ended; JSON cannot hold its outcome, and Accept: application/msgpack can.", "Error"
        ),
        "409": _answer("The transaction was aborted, without effect.", "Aborted"),
        "410": _answer("The id is too old to know whether it ran.", "Aborted"),
        "422": _answer("The call cannot be run: arguments, values, an id that was used for another call.", "Refused"),
        "504": _answer("No reply came in time; the same id, with this since, returns its outcome.", "Error"),
        "401": _answer("A token is needed.", "Error"),
        "403": _answer("Web pages may not call.", "Error"),
        "413": _answer("The body is too large.", "Error"),
        "415": _answer("The body is no JSON.", "Error"),
        "421": _answer("This Host is not served.", "Error"),
        "400": _answer("The request has a Content-Length and a Transfer-Encoding.", "Error"),
        "408": _answer("Headers or body did not come in time.", "Error"),
        "502": _answer("The transaction has ended; its reply on the log cannot be decoded.", "Error"),
        "503": _answer("Nothing was sent: the log fails, or all connections are taken.", "Error"),
    },
}

_NEW_ID: dict[str, Any] = {
    "operationId": "make_id",
    "summary": "An id for one call and all its retries",
    "description": "It holds when it was made: a retry that comes so late that its first try is forgotten is refused.",
    "responses": {
        "200": _answer("The id.", "Id"),
        "401": _answer("A token is needed.", "Error"),
        "503": _answer("The log does not answer.", "Error"),
    },
}

_HEALTH = {
    "200": {"description": "Calls can be answered, as far as the log is concerned."},
    "503": {"description": "They cannot: problems holds the reasons."},
}
_ABORTED: dict[str, Any] = {
    "type": "object",
    "required": ["id", "aborted", "arguments"],
    "properties": {
        "id": {"type": "string"},
        "aborted": {"type": "string", "description": "Type of the exception."},
        "arguments": {"type": "array", "items": {}},
    },
}
_ERROR: dict[str, Any] = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}

OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Holon transactions", "version": "1"},
    "paths": {
        "/v1/call": {"post": _CALL},
        "/v1/id": {"post": _NEW_ID},
        "/healthz": {"get": {"operationId": "live", "responses": _HEALTH}},
        "/openapi.json": {"get": {"operationId": "describe", "responses": {"200": {"description": "This document."}}}},
    },
    "components": {
        "schemas": {
            "Call": {
                "type": "object",
                "additionalProperties": False,
                "required": ["operator", "key", "function"],
                "properties": {
                    "operator": {"type": "string"},
                    "key": {"type": "string"},
                    "function": {"type": "string"},
                    "args": {"description": "A list of positional, an object of named arguments, or the only one."},
                    "id": {
                        "type": ["string", "null"],
                        "minLength": 1,
                        "maxLength": 200,
                        "description": "At most 200 bytes in UTF-8.",
                    },
                    "since": {
                        "type": ["integer", "null"],
                        "minimum": 0,
                        "description": "For a retry: the value in the answer 504 to the first try.",
                    },
                    "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": 300, "default": 30},
                },
            },
            "Result": {
                "type": "object",
                "required": ["id", "result"],
                "properties": {"id": {"type": "string"}, "result": {}},
            },
            "Id": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
            "Aborted": _ABORTED,
            "Error": _ERROR,
            "Refused": {"anyOf": [_ABORTED, _ERROR]},
        }
    },
}
