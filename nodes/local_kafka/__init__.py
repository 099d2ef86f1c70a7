"""A Kafka broker on this machine for development, tests and benchmarks; not the client, which is in ``log.kafka``."""
