"""CRC-32C (Castagnoli), which Kafka's record batches carry, as a compiled loop: by the processor's own instruction
where it has one, else by a table.

One instruction waits for the one before; three at once over neighbouring pieces of ``SLICE_BYTES`` do not. The sums of
the pieces are put together by tables of what so many zeros do to a sum (``crc32c_tables.py``).
"""
# Numba compiles this file; a type checker takes its scalars for plain numbers.
# pyright: reportArgumentType=false, reportCallIssue=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from holon.columnar.kernel import compiled
from holon.columnar.vectors import load_word, number_at
from nodes.log.codecs.crc32c_tables import BYTES, SHIFTS, SLICE_BYTES

_FEATURES = llvm.get_host_cpu_features()
_WORD, _HALF = ir.IntType(64), ir.IntType(32)
_X86, _ARM = bool(_FEATURES.get("sse4.2")), bool(_FEATURES.get("crc"))
_ALL = np.uint64(0xFFFFFFFF)
_NARROW = np.uint64(0xFF)
HARDWARE = _X86 or _ARM
inlined = numba.njit(forceinline=True, error_model="numpy", boundscheck=False)


@intrinsic
def _word_step(typing_context: Any, crc: Any, word: Any) -> Any:
    """The sum after eight more bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _X86:
            kind = ir.FunctionType(_WORD, [_WORD, _WORD])
            step = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", fnty=kind)
            return builder.call(step, arguments)
        kind = ir.FunctionType(_HALF, [_HALF, _WORD])
        step = builder.module.declare_intrinsic("llvm.aarch64.crc32cx", fnty=kind)
        return builder.zext(builder.call(step, [builder.trunc(arguments[0], _HALF), arguments[1]]), _WORD)

    return types.uint64(types.uint64, types.uint64), generate


@inlined
def _byte_step(crc, byte, tables):
    place = (crc ^ byte) & _NARROW
    return np.uint64(number_at(tables, BYTES + np.int64(place))) ^ (crc >> np.uint64(8))


@inlined
def _shifted(crc, tables):
    """The sum after a slice of zeros."""
    found = np.uint64(0)
    for k in range(4):
        place = np.int64((crc >> np.uint64(8 * k)) & _NARROW)
        found ^= np.uint64(number_at(tables, SHIFTS + 256 * k + place))
    return found


@inlined
def sum_of(address, length, tables):
    """CRC-32C of so many bytes; up to seven bytes behind them are loaded and not looked at."""
    crc, end = _ALL, address + length
    if HARDWARE:
        while address + 3 * SLICE_BYTES <= end:
            second, third, behind = np.uint64(0), np.uint64(0), address + SLICE_BYTES
            while address < behind:
                crc = _word_step(crc, load_word(address))
                second = _word_step(second, load_word(address + SLICE_BYTES))
                third = _word_step(third, load_word(address + 2 * SLICE_BYTES))
                address += 8
            crc = _shifted(_shifted(crc, tables) ^ second, tables) ^ third
            address += 2 * SLICE_BYTES
        while address + 8 <= end:
            crc = _word_step(crc, load_word(address))
            address += 8
    while address < end:
        word = load_word(address)
        for k in range(min(8, end - address)):
            crc = _byte_step(crc, (word >> np.uint64(8 * k)) & _NARROW, tables)
        address += 8
    return np.int64(crc ^ _ALL)


@compiled
def crc32c(address, length, tables):
    """CRC-32C of so many bytes at an address; ``tables`` are those of ``crc32c_tables``."""
    return sum_of(address, length, tables)
