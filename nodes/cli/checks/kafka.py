"""The checks of `holon doctor` on a Kafka cluster: does it answer, and are its topics as a log's must be?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from nodes.cli.checks.check import KAFKA, Check

if TYPE_CHECKING:
    from nodes.log import LogAddress
    from nodes.log.kafka.inspect_cluster import ClusterSettings

TIMEOUT_S = 5.0
_SHOWN = 5


def kafka_checks(address: LogAddress) -> Iterator[Check]:
    """The cluster, its defaults for new topics, its topics. Raises ``LogUnavailable`` where no broker answers."""
    from nodes.log.kafka.inspect_cluster import inspect_cluster

    cluster = inspect_cluster(address, TIMEOUT_S)
    brokers = ", ".join(cluster.brokers)
    found = f"cluster {cluster.cluster_id}, {len(cluster.brokers)} brokers ({brokers}); {cluster.clients}"
    yield Check(KAFKA, "ok", found, True)
    yield _durability(cluster)
    yield from _topics(cluster)


def _durability(cluster: ClusterSettings) -> Check:
    """Acknowledged records are on as many machines as the cluster's defaults require."""
    name = "kafka: new topics"
    if not cluster.defaults:
        return Check(name, "warning", "this user may not read the brokers' settings", False)
    replicas, insync = cluster.defaults.get("default.replication.factor"), cluster.defaults.get("min.insync.replicas")
    found = f"{replicas} replicas, acknowledged by {insync} at least"
    if len(cluster.brokers) > 1 and insync == "1":
        advice = "set default.replication.factor=3 and min.insync.replicas=2, or one broker's loss may lose records"
        return Check(name, "warning", found, False, advice)
    return Check(name, "ok", found, False)


def _topics(cluster: ClusterSettings) -> Iterator[Check]:
    """Topics whose settings let records vanish or bend their times."""
    name = "kafka: topics"
    if not cluster.topics:
        yield Check(name, "ok", "none yet", False)
        return
    faults = {topic: list(topic_faults(topic, settings)) for topic, settings in cluster.topics.items()}
    wrong = [f"{topic}: {'; '.join(found)}" for topic, found in faults.items() if found]
    if not wrong:
        yield Check(name, "ok", f"{len(faults)}, all with LogAppendTime and without an end of retention", False)
        return
    more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    advice = "kafka-configs.sh --alter sets what a topic has; see docs/kafka.md, Topics"
    yield Check(name, "warning", f"{len(wrong)} of {len(faults)}: {' | '.join(wrong[:_SHOWN])}{more}", False, advice)


def topic_faults(topic: str, settings: Mapping[str, str]) -> Iterator[str]:
    """The deviations. Heartbeats may go, and the topics of others are theirs."""
    if settings.get("message.timestamp.type") != "LogAppendTime":
        yield "log timestamps are the producers' (message.timestamp.type is not LogAppendTime)"
    if topic.endswith(".heartbeats"):
        return
    for key in ("retention.ms", "retention.bytes"):
        if settings.get(key, "-1") != "-1":
            yield f"records are deleted ({key} = {settings[key]})"
    if topic.startswith("_holon.") and settings.get("cleanup.policy") != "delete":
        yield f"cleanup.policy is {settings.get('cleanup.policy')}"
