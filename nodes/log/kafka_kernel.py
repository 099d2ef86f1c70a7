"""The compiled loops that walk librdkafka's messages: their fields as columns, their bytes into one buffer, and back.

Two rules for this file: the layouts of ``rd_kafka_message_t`` and ``rd_kafka_vu_t`` are those of the public header;
functions of the library come as addresses, so that the compiled code needs no symbol from outside.
"""
# Numba compiles what stands here; its scalars are plain numbers to a type checker.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from holon.columnar.kernel import compiled
from holon.columnar.vectors import copy_sixteen, number_at, put_number
from nodes.log.kafka_table import (
    BEGINS,
    ERROR,
    HEADER,
    HEADER_BYTES,
    KEY,
    KEY_BYTES,
    OFFSET,
    PARTITION,
    STAMP,
    TOPIC,
    VALUE,
    VALUE_BYTES,
    VARIABLE,
)

_LOW = np.int64(0xFFFFFFFF)


@intrinsic
def _call(typing_context: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Call a C function at an address; those that take fewer arguments do not look at the others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word] * 4)
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return types.int64(*[types.int64] * 5), generate


@compiled
def scan(messages, count, table, stamp, headers, last_header, name, room, bare):
    """Fill ``table``; returns how many bytes headers and keys have together.

    All arguments but the count are addresses: ``messages`` of pointers, ``stamp``, ``headers`` and ``last_header`` of
    functions, ``name`` of the header that is looked for, ``room`` of three int64 to write to; ``bare`` is a topic whose
    messages are not asked for headers.
    """
    beside = np.int64(0)
    last_error, last_topic, last_partition = np.int64(-1), np.int64(-1), np.int64(-1)
    for k in range(count):
        message = number_at(messages, k)
        error = number_at(message, 0) & _LOW
        topic = number_at(message, 1)
        partition = number_at(message, 2) & _LOW
        begins = np.int64(error != last_error or topic != last_topic or partition != last_partition)
        last_error, last_topic, last_partition = error, topic, partition
        put_number(table, BEGINS * count + k, begins)
        put_number(table, ERROR * count + k, error)
        put_number(table, TOPIC * count + k, topic)
        put_number(table, PARTITION * count + k, partition)
        put_number(table, OFFSET * count + k, number_at(message, 7))
        if error != 0:
            continue
        put_number(table, VALUE * count + k, number_at(message, 3))
        put_number(table, VALUE_BYTES * count + k, number_at(message, 4))
        put_number(table, KEY * count + k, number_at(message, 5))
        put_number(table, KEY_BYTES * count + k, number_at(message, 6))
        put_number(table, STAMP * count + k, _call(stamp, message, room, 0, 0))
        put_number(table, HEADER * count + k, 0)
        put_number(table, HEADER_BYTES * count + k, 0)
        if topic != bare and _call(headers, message, room, 0, 0) & _LOW == 0:
            found = _call(last_header, number_at(room, 0), name, room + 8, room + 16) & _LOW
            if found == 0 and number_at(room, 1) != 0:
                put_number(table, HEADER * count + k, number_at(room, 1))
                put_number(table, HEADER_BYTES * count + k, number_at(room, 2))
                beside += number_at(room, 2)
        # A key may be there and empty.
        beside += number_at(message, 6) + np.int64(number_at(message, 5) != 0)
    return beside


@compiled
def gather(pointers, sizes, count, buffer, at, ends):
    """Copy what a pair of columns points at, one after the other from ``at`` on; ``ends`` gets that and each end."""
    put_number(ends, 0, at)
    for k in range(count):
        source, length = number_at(pointers, k), number_at(sizes, k)
        done = np.int64(0)
        while done + 16 <= length:
            copy_sixteen(buffer + at + done, source + done)
            done += 16
        # Nothing is known of what stands behind the source, so the last vector ends where the source does.
        if done < length and length >= 16:
            copy_sixteen(buffer + at + length - 16, source + length - 16)
            done = length
        while done < length:
            _copy_byte(buffer + at + done, source + done)
            done += 1
        at += length
        put_number(ends, k + 1, at)
    return at


@intrinsic
def _copy_byte(typing_context: Any, to: Any, source: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointers = [builder.inttoptr(address, ir.IntType(8).as_pointer()) for address in arguments]
        builder.store(builder.load(pointers[1]), pointers[0])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@compiled
def release(messages, count, destroy):
    """Give the messages back to the library."""
    for k in range(count):
        _call(destroy, number_at(messages, k), 0, 0, 0)
    return count


@compiled
def hand_over(client, produce, parts, columns, first, count, ticket, failure):
    """Give records ``first`` to ``count`` to the library, one after the other; returns how many of all it has then.

    ``parts`` are seven ``rd_kafka_vu_t``: topic, partition, flags, opaque, value, key, header. ``columns`` are three
    triples of buffer, starts and ends, for values, headers and keys: buffer 0 where there are none, start -1 for a
    record without a key; an empty header is none. The opaque of a record is twice the ticket, of the last one 1 more.
    Where the library refuses a record, ``failure`` gets its error (an address).
    """
    values, value_starts, value_ends = number_at(columns, 0), number_at(columns, 1), number_at(columns, 2)
    headers, header_starts, header_ends = number_at(columns, 3), number_at(columns, 4), number_at(columns, 5)
    keys, key_starts, key_ends = number_at(columns, 6), number_at(columns, 7), number_at(columns, 8)
    opaque, value, key, header = parts + 3 * VARIABLE, parts + 4 * VARIABLE, parts + 5 * VARIABLE, parts + 6 * VARIABLE
    for k in range(first, count):
        put_number(opaque, 1, 2 * ticket + (1 if k == count - 1 else 0))
        start = number_at(value_starts, k)
        put_number(value, 1, values + start)
        put_number(value, 2, number_at(value_ends, k) - start)
        start = number_at(key_starts, k) if keys != 0 else np.int64(-1)
        put_number(key, 1, keys + start if start >= 0 else np.int64(0))
        put_number(key, 2, number_at(key_ends, k) - start if start >= 0 else np.int64(0))
        given = np.int64(6)
        if headers != 0:
            start = number_at(header_starts, k)
            size = number_at(header_ends, k) - start
            if size > 0:
                put_number(header, 2, headers + start)
                put_number(header, 3, size)
                given = np.int64(7)
        refused = _call(produce, client, parts, given, 0)
        if refused != 0:
            put_number(failure, 0, refused)
            return k
    return count


@compiled
def reported(messages, count, found):
    """What reports of delivery say: error, ticket and offset of each that failed or is the last of its ticket."""
    rows = 0
    for k in range(count):
        message = number_at(messages, k)
        error, opaque = number_at(message, 0) & _LOW, number_at(message, 8)
        if error != 0 or opaque & 1 != 0:
            put_number(found, 3 * rows, error)
            put_number(found, 3 * rows + 1, opaque >> 1)
            put_number(found, 3 * rows + 2, number_at(message, 7))
            rows += 1
    return rows
