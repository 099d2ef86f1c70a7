"""The compiled loops that walk librdkafka's messages: their fields as columns, their bytes into one buffer.

Two rules for this file: the layout of ``rd_kafka_message_t`` is that of its public header; functions of the library
come as addresses, so that the compiled code needs no symbol from outside.
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
    WIDTH,
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
    """Fill ``table``, ``WIDTH`` int64 for each message; returns how many bytes their values have.

    All arguments but the count are addresses: ``messages`` of pointers, ``stamp``, ``headers`` and ``last_header`` of
    functions, ``name`` of the header that is looked for, ``room`` of three int64 to write to; ``bare`` is a topic whose
    messages are not asked for headers.
    """
    total = np.int64(0)
    for k in range(count):
        message = number_at(messages, k)
        row = table + 8 * WIDTH * k
        error = number_at(message, 0) & _LOW
        put_number(row, ERROR, error)
        topic = number_at(message, 1)
        put_number(row, TOPIC, topic)
        put_number(row, PARTITION, number_at(message, 2) & _LOW)
        put_number(row, OFFSET, number_at(message, 7))
        if error != 0:
            continue
        put_number(row, VALUE, number_at(message, 3))
        put_number(row, VALUE_BYTES, number_at(message, 4))
        put_number(row, KEY, number_at(message, 5))
        put_number(row, KEY_BYTES, number_at(message, 6))
        put_number(row, STAMP, _call(stamp, message, room, 0, 0))
        put_number(row, HEADER, 0)
        put_number(row, HEADER_BYTES, 0)
        if topic != bare and _call(headers, message, room, 0, 0) & _LOW == 0:
            found = _call(last_header, number_at(room, 0), name, room + 8, room + 16) & _LOW
            if found == 0 and number_at(room, 1) != 0:
                put_number(row, HEADER, number_at(room, 1))
                put_number(row, HEADER_BYTES, number_at(room, 2))
        total += number_at(message, 4)
    return total


@compiled
def gather(table, first, count, pointer, size, buffer, at, ends):
    """Copy what a pair of columns points at, one after the other from ``at`` on; ``ends`` gets that and each end."""
    put_number(ends, 0, at)
    for k in range(count):
        row = table + 8 * WIDTH * (first + k)
        source, length = number_at(row, pointer), number_at(row, size)
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
