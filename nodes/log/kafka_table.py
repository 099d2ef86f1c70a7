"""The table that compiled loops make of librdkafka's messages: eleven int64 a message, at these places."""

ERROR, TOPIC, PARTITION, OFFSET, VALUE, VALUE_BYTES, KEY, KEY_BYTES, STAMP, HEADER, HEADER_BYTES, WIDTH = range(12)
"""Addresses (``TOPIC``: of the library's own object), sizes in bytes, the broker's time in ms; ``WIDTH`` of a row."""
VARIABLE = 72
"""Bytes of a ``rd_kafka_vu_t``: what it is, and 64 for its value."""
