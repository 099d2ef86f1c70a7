"""The mixed job on Avro records."""

from __future__ import annotations

from typing import Any

from holon import Job, Source
from holon.avro import Avro
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event, Mixed, time_of

_FIELDS: dict[str, Any] = {"ts": "long", "id": "long", "amount": "int", "poison": "string"}


def _schema(*names: str, **more: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": more.get(name, _FIELDS.get(name))} for name in names]
    return {"type": "record", "name": "Event", "fields": fields}


FIRST = _schema("id", "ts", "amount")
SECOND = _schema("source", "amount", "id", "ts", "poison", source=["null", "string"], amount="long")
"""Of a later writer, with another order, a wider type, and a field that the job does not know."""


def job(port: int) -> Job[Event]:
    """As ``tests.integration.jobs_registry:job?port=N``, the registry's on this machine."""
    form = Avro(Event, registry=f"http://127.0.0.1:{port}")
    return Job("mixed", Source(INPUT, form, timestamp=time_of), Mixed, output=OUTPUT, on_error="dead-letter")
