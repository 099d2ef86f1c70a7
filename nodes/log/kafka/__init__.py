"""The log on Apache Kafka through confluent-kafka; connections of our own are in ``direct``."""
