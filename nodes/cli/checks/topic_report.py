"""The report of `holon doctor --topic`: which way a topic will be read, and the changes that would make it quicker."""

from __future__ import annotations

from importlib import util
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holon.formats.registry import HEADER_BYTES, head_refusal, id_of
from nodes.log.contract import FetchedRecords, Log, TopicPartition

if TYPE_CHECKING:
    from nodes.log import LogAddress
    from nodes.settings.settings import Settings

SMALL_BATCH_BYTES, MANY_RECORDS = 4_000, 10_000
INSTALL_FAST = "pip install 'holon-streams[fast]'"


class TopicReport(msgspec.Struct):
    """``way``: how a job that takes columns (JsonColumns and the like) reads the topic; ``why`` if not directly.

    ``compiled``: the compiled loops are there. ``compression``: the codecs of the last batch of each partition.
    ``transactional``, ``append_time``: of the last batches too; None where they could not be read. ``schema_ids``: of a
    schema registry, where all of the last records begin as those that name one.
    """

    topic: str
    log: str
    partitions: int
    records: int
    way: Literal["direct", "confluent-kafka", "embedded"]
    why: str | None
    compiled: bool
    keys: bool
    security: str | None = None
    brokers: list[str] = []
    compression: list[str] = []
    transactional: bool | None = None
    append_time: bool | None = None
    schema_ids: list[int] = []
    advice: list[str] = []


def topic_report(settings: Settings, topic: str) -> TopicReport:
    """Inspect the topic. Raises ``UnknownTopic``, and ``LogUnavailable`` where no broker answers."""
    from nodes.compiled import loading as compiled
    from nodes.runtime.log_opening import log_address, open_settings_log

    has_loops = util.find_spec("llvmlite") is not None and compiled.ensure(build=False)
    with open_settings_log(settings) as log:
        count = log.partitions(topic)
        starts = {partition: log.start_offset(topic, partition) for partition in range(count)}
        ends = {partition: log.end_offset(topic, partition) for partition in range(count)}
        last = [_last(log, TopicPartition(topic, p), starts[p], ends[p]) for p in range(count) if ends[p] > starts[p]]
    keyed = any(chunk.keys is not None for chunk in last)
    records = sum(ends[partition] - starts[partition] for partition in range(count))
    report = TopicReport(topic, settings.log.kind, count, records, "embedded", None, has_loops, keyed)
    if settings.log.kind == "kafka":
        written = {partition: end for partition, end in ends.items() if end > starts[partition]}
        _check_kafka(log_address(settings), report, written)
    elif keyed:
        report.advice.append(
            "records with keys or headers become objects one by one; those without are read as columns"
        )
    if not has_loops:
        report.advice.insert(0, f"the compiled loops are missing, or not compiled yet (make setup): {INSTALL_FAST}")
    heads = [value[:HEADER_BYTES] for chunk in last for value in chunk.values]
    if heads and all(head_refusal(head) is None for head in heads):
        report.schema_ids = sorted({id_of(head) for head in heads})
        report.advice.append(
            "its values begin as those that name schemas of a registry: Avro(..., registry=URL) of holon.avro or "
            "Protobuf(..., registry=URL) of holon.protobuf reads them"
        )
        return report
    report.advice.append(
        "a job whose format is Json or Raw takes records one by one; JsonColumns with process_batch reads columns"
    )
    return report


def _last(log: Log, where: TopicPartition, start: int, end: int) -> FetchedRecords:
    """The last records of a partition."""
    return log.read(*where, max(start, end - 10), max_records=10)


def _check_kafka(address: LogAddress, report: TopicReport, ends: dict[int, int]) -> None:
    from nodes.log.kafka import client_config
    from nodes.log.kafka.direct.connection import Lost
    from nodes.log.kafka.direct.fetched.last_batches import last_batches

    assert address.bootstrap is not None
    why = by_property = client_config.not_read_directly(address.kafka)
    if why is None and not report.compiled:
        why = "the compiled loops are missing"
    report.security = _security(address.kafka)
    config: dict[str, Any] = {**address.kafka, "bootstrap.servers": address.bootstrap}
    wrong = client_config.unsupported_security(address.kafka)
    found = Lost(f"log.kafka.{wrong}") if wrong else last_batches(config, address.prefix + report.topic, ends)
    if isinstance(found, Lost):
        why = why or f"Holon's own connection fails: {found.why}"
    else:
        _add_batches(report, *found)
        if why is None and any(codec != "none" for codec in report.compression) and not _has("cramjam"):
            why = f"{', '.join(report.compression)} is unpacked by cramjam, which is missing"
            report.advice.append(f"to read compressed batches directly: {INSTALL_FAST}")
    report.way, report.why = "direct" if why is None else "confluent-kafka", why
    if by_property is not None:
        report.advice.append("leave that property out, and the topic is read directly, for half the processor time")


def _add_batches(report: TopicReport, heads: dict[int, Any], brokers: list[str]) -> None:
    report.brokers = brokers
    if not heads:
        return
    known = list(heads.values())
    report.compression = sorted({head.codec for head in known})
    report.transactional = any(head.transactional for head in known)
    report.append_time = all(head.append_time for head in known)
    if any(head.magic < 2 for head in known):
        report.advice.append("batches of a format before Kafka 0.11 are read by confluent-kafka: write the topic anew")
    if "gzip" in report.compression:
        report.advice.append(
            "gzip takes several times the processor time of lz4 to unpack: set compression.type in its writers"
        )
    if max(head.size for head in known) < SMALL_BATCH_BYTES and report.records > MANY_RECORDS:
        report.advice.append("its batches are small: a linger.ms of 5 or more in its writers makes reading cheaper")


def _security(properties: Any) -> str:
    protocol = str(properties.get("security.protocol", "plaintext")).upper()
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms"))
    certificate = " with a certificate of this client" if "ssl.certificate.location" in properties else ""
    return protocol + (f" ({mechanism})" if mechanism and protocol.startswith("SASL") else "") + certificate


def _has(package: str) -> bool:
    return util.find_spec(package) is not None


def lines(report: TopicReport) -> list[str]:
    """For people."""
    found = [f"topic {report.topic}: {report.partitions} partitions, {report.records:,} records"]
    how = "directly, by compiled loops" if report.way == "direct" else f"by {report.way}"
    if report.way == "embedded":
        how = "from the embedded log" + (", by compiled loops" if report.compiled else "")
    found.append(f"read {how}" + (f": {report.why}" if report.why else ""))
    if report.security is not None:
        found.append(f"security {report.security}; led by {', '.join(report.brokers) or 'unknown brokers'}")
        codecs = ", ".join(report.compression) or "unknown"
        found.append(f"compression {codecs}; transactional: {_word(report.transactional)}")
    if report.schema_ids:
        found.append(f"schemas of a registry: {', '.join(map(str, report.schema_ids))}")
    return [*found, *(f"help: {line}" for line in report.advice)]


def _word(value: bool | None) -> str:
    return "unknown" if value is None else "yes, read committed" if value else "no"
