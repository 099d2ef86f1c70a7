"""The table that compiled loops make of librdkafka's messages: columns of int64, in this order, without gaps."""

BEGINS, ERROR, TOPIC, PARTITION, OFFSET, VALUE, VALUE_BYTES, KEY, KEY_BYTES, STAMP, HEADER, HEADER_BYTES, WIDTH = range(
    13
)
"""``BEGINS``: 1 where the message before is another topic's, partition's or error's. Addresses (``TOPIC``: of the
library's own object), sizes in bytes, the broker's time in ms; ``WIDTH`` columns in all."""
VARIABLE = 72
"""Bytes of a ``rd_kafka_vu_t``: what it is, and 64 for its value."""
