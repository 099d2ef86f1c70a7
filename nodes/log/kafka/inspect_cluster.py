"""The check of a Kafka cluster by `holon doctor`: brokers, defaults, settings of topics. It changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # pyright: ignore[reportPrivateImportUsage]
    AdminClient,
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from nodes.log.address import LogAddress
from nodes.log.kafka import client_config as kafka_config
from nodes.log.kafka.errors import Connection, reason
from nodes.log.kafka.log import KafkaLog

_FORBIDDEN = (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """``defaults``: settings of one broker; ``topics``: of each topic; empty where this user may not read them."""

    cluster_id: str
    brokers: list[str]
    clients: str
    defaults: Mapping[str, str]
    topics: Mapping[str, Mapping[str, str]]


def inspect_cluster(address: LogAddress, timeout_s: float) -> ClusterSettings:
    """Query the cluster. Raises ``LogUnavailable`` where no broker answers within ``timeout_s``."""
    bootstrap = address.bootstrap
    assert bootstrap is not None
    with KafkaLog(bootstrap, address.kafka, prefix=address.prefix, connect_timeout_s=timeout_s) as log:
        topics = list(log.topics())
    connection = Connection(bootstrap)
    admin = AdminClient(kafka_config.admin(kafka_config.common(bootstrap, address.kafka), connection.note))
    try:
        metadata = admin.list_topics(timeout=timeout_s)
        first = min(metadata.brokers)
        broker = _settings(admin, [ConfigResource(ResourceType.BROKER, str(first))], timeout_s)
        resources = [ConfigResource(ResourceType.TOPIC, address.prefix + topic) for topic in topics]
        found = _settings(admin, resources, timeout_s)
    except KafkaException as error:
        raise connection.translated(reason(error), "inspecting the cluster") from error
    return ClusterSettings(
        str(metadata.cluster_id),
        [f"{one.host}:{one.port}" for _, one in sorted(metadata.brokers.items())],
        f"confluent-kafka {confluent_kafka.version()}, librdkafka {confluent_kafka.libversion()[0]}",
        broker.get(str(first), {}),
        {name.removeprefix(address.prefix): settings for name, settings in found.items()},
    )


def _settings(admin: AdminClient, resources: list[ConfigResource], timeout_s: float) -> dict[str, dict[str, str]]:
    """The settings of each resource that this user may read."""
    if not resources:
        return {}
    answers = admin.describe_configs(resources, request_timeout=timeout_s)
    found = {}
    for resource, answer in answers.items():
        try:
            found[resource.name] = {name: str(entry.value) for name, entry in answer.result(timeout_s).items()}
        except KafkaException as error:
            if reason(error).code() not in _FORBIDDEN:
                raise
    return found
