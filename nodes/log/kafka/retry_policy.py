"""The remedy for each error of Kafka: one table for senders, readers and requests.

An error that is not in the table is final: the message names it. ``docs/design/kafka-log.md``, "Brokers that go away".
"""

from __future__ import annotations

from enum import Enum

from confluent_kafka import KafkaError


class Remedy(Enum):
    """The least that helps."""

    WAIT = "wait"
    """Transient: the client, or the same request again, mends it; a deadline decides when that has taken too long."""
    RENEW = "renew"
    """The writer has lost its place at the broker, or has given up: only a new producer writes again. Batches on their
    way may be on the log, so where order or memory counts the writer goes on from a checkpoint."""
    RECHECK = "recheck"
    """The topic is not known. A broker that loads reports this too; a node that starts finds out whether it is true."""
    REFUSED = "refused"
    """The broker takes neither user nor protocol: others have to give rights back."""
    FINAL = "final"
    """The environment has no part in it: it would be the same again."""


_BY_REMEDY: dict[Remedy, tuple[int, ...]] = {
    Remedy.WAIT: (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
        KafkaError._IN_PROGRESS,
        KafkaError._RETRY,
        KafkaError._QUEUE_FULL,
        KafkaError._NOENT,  # "no leaders found"
        KafkaError._DESTROY,
        KafkaError.UNKNOWN,  # the broker failed at it, and does not know how
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_CONTROLLER,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    ),
    Remedy.RENEW: (
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.DUPLICATE_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError._FENCED,
        KafkaError._FATAL,
        KafkaError._GAPLESS_GUARANTEE,  # what the client is unable to after a record that was not acknowledged
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._INCONSISTENT,
        KafkaError._STATE,
    ),
    Remedy.RECHECK: (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    ),
    Remedy.REFUSED: (
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    ),
}
_REMEDIES = {code: remedy for remedy, codes in _BY_REMEDY.items() for code in codes}

_REQUESTED = (KafkaError.INVALID_MSG, *_BY_REMEDY[Remedy.WAIT], *_BY_REMEDY[Remedy.RECHECK])
SENT_AGAIN = frozenset(code for code in _REQUESTED if code >= KafkaError.UNKNOWN)  # the client's own are below
"""Errors of a batch that is to be sent once more: it was damaged on the way, or the cause passes."""


def remedy(code: int) -> Remedy:
    """The remedy for this error."""
    return _REMEDIES.get(code, Remedy.FINAL)
