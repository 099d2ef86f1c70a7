"""A topic on Kafka as a Spark DataFrame, read by Spark's own connector: no line of it is Holon's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nodes.errors import SettingsError
from nodes.local_kafka.jars import kafka_jars, spark_connector
from nodes.log import LogAddress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = (
    "partition",
    "offset",
    "unix_millis(timestamp) AS timestamp_ms",
    "key",
    "CAST(NULL AS BINARY) AS headers",
    "coalesce(value, X'') AS value",
)
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# Properties of librdkafka that mean nothing to Kafka's own client, or that it does not need to read.
_PASSED_OVER = (
    "holon.",
    "client.",
    "broker.",
    "socket.",
    "compression.",
    "group.id",
    "debug",
    "topic.metadata.",
    "reconnect.",
)


def connector_jars() -> list[Path]:
    """The jars that the connector needs beside Spark's own; fetched the first time (25 to 40 s), then from the cache.

    Raises ``MissingDependency`` or ``Unreachable`` with what is missing.
    """
    import pyspark

    own = {jar.name for jar in Path(pyspark.__file__).parent.glob("jars/*.jar")}
    folder = kafka_jars(bundle=spark_connector(pyspark.__version__))
    return sorted(jar for jar in folder.glob("*.jar") if jar.name not in own)


def read_kafka(spark: SparkSession, address: LogAddress, topic: str) -> DataFrame:
    """All that is in the topic now, with the columns of `nodes.spark.source.SCHEMA`; headers are left out."""
    reader = spark.read.format("kafka").option("subscribe", address.prefix + topic)
    for name, value in client_properties(address).items():
        reader = reader.option(f"kafka.{name}", value)
    found = reader.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()
    return found.selectExpr(*_COLUMNS)


def client_properties(address: LogAddress) -> dict[str, str]:
    """Properties of Kafka's Java client that do what the address's librdkafka properties do: passwords, TLS.

    Raises ``SettingsError`` for one that has no counterpart here.
    """
    given = dict(address.kafka)
    found = {"bootstrap.servers": address.bootstrap or "", "isolation.level": "read_committed"}
    if "security.protocol" in given:
        found["security.protocol"] = given.pop("security.protocol").upper()
    mechanism = given.pop("sasl.mechanism", given.pop("sasl.mechanisms", "")).upper()
    user, password = given.pop("sasl.username", ""), given.pop("sasl.password", "")
    if mechanism in _LOGIN:
        found["sasl.mechanism"] = mechanism
        found["sasl.jaas.config"] = (
            f"{_LOGIN[mechanism]} required username={_quoted(user)} password={_quoted(password)};"
        )
        mechanism = ""
    if "ssl.ca.location" in given:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": given.pop("ssl.ca.location")}
    unknown = [name for name in sorted(given) if not name.startswith(_PASSED_OVER)] + ([mechanism] if mechanism else [])
    if unknown:
        raise SettingsError(
            f"Spark has no setting for what log.kafka sets of {', '.join(unknown)}: it can do sasl.mechanism "
            f"{', '.join(_LOGIN)} and ssl.ca.location; use --validate plain"
        )
    return found


def _quoted(text: str) -> str:
    """A value of JAAS."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
