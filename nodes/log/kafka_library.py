"""librdkafka itself: the library inside of confluent-kafka, by its public C interface, and clients of it.

Two rules for this file: it knows the C interface and nothing of records; what the library may call from its threads
touches nothing of Python.
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

PRODUCER, CONSUMER = 0, 1
ERROR_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_TEXT_BYTES = 512
_CONF_OK = 0


class _Partition(ctypes.Structure):
    """The beginning of ``rd_kafka_topic_partition_t``."""

    _fields_ = (("topic", ctypes.c_char_p), ("partition", ctypes.c_int32), ("offset", ctypes.c_int64))


class _PartitionMetadata(ctypes.Structure):
    """``rd_kafka_metadata_partition_t``."""

    _fields_ = (("id", ctypes.c_int32), ("err", ctypes.c_int), ("leader", ctypes.c_int32),
                ("_replicas", ctypes.c_int), ("_", ctypes.c_void_p), ("_isrs", ctypes.c_int),
                ("__", ctypes.c_void_p))  # fmt: skip


class _BrokerMetadata(ctypes.Structure):
    """``rd_kafka_metadata_broker_t``."""

    _fields_ = (("id", ctypes.c_int32), ("host", ctypes.c_char_p), ("port", ctypes.c_int))


class _TopicMetadata(ctypes.Structure):
    """``rd_kafka_metadata_topic_t``."""

    _fields_ = (("topic", ctypes.c_char_p), ("count", ctypes.c_int), ("partitions", ctypes.POINTER(_PartitionMetadata)),
                ("err", ctypes.c_int))  # fmt: skip


class _Metadata(ctypes.Structure):
    """The beginning of ``rd_kafka_metadata_t``."""

    _fields_ = (
        ("broker_count", ctypes.c_int),
        ("brokers", ctypes.POINTER(_BrokerMetadata)),
        ("count", ctypes.c_int),
        ("topics", ctypes.POINTER(_TopicMetadata)),
    )


def open_library() -> ctypes.CDLL | None:
    """The library that confluent-kafka has loaded; None where it is not beside it (built by hand, other system)."""
    folder = os.path.dirname(os.path.dirname(confluent_kafka.__file__))
    found = glob.glob(os.path.join(folder, "confluent_kafka.libs", "librdkafka-*.so*"))
    if len(found) != 1 or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    library = ctypes.CDLL(found[0])
    pointer, text, number, many = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    for name, result, arguments in (
        ("conf_new", pointer, ()),
        ("conf_set", number, (pointer, text, text, text, many)),
        ("conf_destroy", None, (pointer,)),
        ("conf_set_error_cb", None, (pointer, ERROR_CALLBACK)),
        ("conf_set_events", None, (pointer, number)),
        ("conf_set_log_cb", None, (pointer, pointer)),
        ("new", pointer, (number, pointer, text, many)),
        ("poll_set_consumer", number, (pointer,)),
        ("queue_get_consumer", pointer, (pointer,)),
        ("queue_destroy", None, (pointer,)),
        ("consume_batch_queue", ctypes.c_ssize_t, (pointer, number, pointer, many)),
        ("topic_partition_list_new", pointer, (number,)),
        ("topic_partition_list_add", ctypes.POINTER(_Partition), (pointer, text, ctypes.c_int32)),
        ("topic_partition_list_destroy", None, (pointer,)),
        ("incremental_assign", pointer, (pointer, pointer)),
        ("incremental_unassign", pointer, (pointer, pointer)),
        ("error_code", number, (pointer,)),
        ("error_string", text, (pointer,)),
        ("error_destroy", None, (pointer,)),
        ("topic_new", pointer, (pointer, text, pointer)),
        ("topic_name", text, (pointer,)),
        ("topic_destroy", None, (pointer,)),
        ("metadata", number, (pointer, number, pointer, pointer, number)),
        ("metadata_destroy", None, (pointer,)),
        ("queue_get_main", pointer, (pointer,)),
        ("queue_poll", pointer, (pointer, number)),
        ("event_type", number, (pointer,)),
        ("event_error", number, (pointer,)),
        ("event_error_string", text, (pointer,)),
        ("event_message_count", many, (pointer,)),
        ("event_message_array", many, (pointer, pointer, many)),
        ("event_destroy", None, (pointer,)),
        ("outq_len", number, (pointer,)),
        ("purge", number, (pointer, number)),
        ("message_errstr", text, (pointer,)),
        ("topic_partition_get_leader_epoch", ctypes.c_int32, (pointer,)),
        ("topic_partition_set_leader_epoch", None, (pointer, ctypes.c_int32)),
        ("position", number, (pointer, pointer)),
        ("queue_io_event_enable", None, (pointer, number, text, many)),
        ("consumer_close", number, (pointer,)),
        ("destroy", None, (pointer,)),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def new_client(
    library: ctypes.CDLL, kind: int, config: Mapping[str, Any], on_error: Any = None, events: int = 0
) -> int:
    """A client as confluent-kafka would make it; raises ``KafkaException`` for what is refused.

    Errors are told to ``on_error``, an ``ERROR_CALLBACK`` that has to live as long as the client; or, as ``events``, to
    its main queue.
    """
    said = ctypes.create_string_buffer(_TEXT_BYTES)
    conf = library.rd_kafka_conf_new()
    for key, value in config.items():
        if key in ("error_cb", "logger"):
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if library.rd_kafka_conf_set(conf, key.encode(), text.encode(), said, _TEXT_BYTES) != _CONF_OK:
            library.rd_kafka_conf_destroy(conf)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, said.value.decode()))
    if on_error is not None:
        library.rd_kafka_conf_set_error_cb(conf, on_error)
    library.rd_kafka_conf_set_events(conf, events)
    library.rd_kafka_conf_set_log_cb(conf, None)
    client = library.rd_kafka_new(kind, conf, said, _TEXT_BYTES)
    if not client:
        library.rd_kafka_conf_destroy(conf)
        raise KafkaException(KafkaError(KafkaError._FAIL, said.value.decode()))
    return client


def partition_count(library: ctypes.CDLL, client: int, topic: int, timeout_s: float) -> int:
    """How many partitions a topic (an address) has; 0 if there is none."""
    return len(partition_leaders(library, client, topic, timeout_s))


def partition_leaders(library: ctypes.CDLL, client: int, topic: int, timeout_s: float) -> list[tuple[str, int] | None]:
    """Ask the brokers for a topic (an address), so that the client knows its leaders; their hosts and ports.

    None for a partition that has no leader; nothing if there is no such topic.
    """
    found = ctypes.POINTER(_Metadata)()
    code = library.rd_kafka_metadata(client, 0, topic, ctypes.byref(found), int(timeout_s * 1000))
    if code:
        raise KafkaException(KafkaError(code))
    try:
        brokers = {
            one.id: (one.host.decode(), one.port) for one in found.contents.brokers[: found.contents.broker_count]
        }
        if not found.contents.count:
            return []
        one = found.contents.topics[0]
        leaders = {one.partitions[row].id: brokers.get(one.partitions[row].leader) for row in range(one.count)}
        return [leaders.get(partition) for partition in range(one.count)]
    finally:
        library.rd_kafka_metadata_destroy(found)
