"""CRC-32 (that of zlib) by multiplication without carries, over bytes that are copied in the same pass.

From "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), with eight lanes; the
last sixteen bytes are left to zlib. Processors without that instruction leave all of it to zlib.
"""
# Numba compiles this file; a type checker takes its scalars for plain numbers.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from holon.columnar.kernel import compiled

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, 2)
_LANES, _LANE_BYTES = 8, 16
_ALL_LANES = (0x1E88EF372, 0x14A7FE880)
"""x^(d+32) and x^(d-32) modulo the polynomial, reflected: how far the remainder moves, d bits."""
_ONE_LANE = (0x1751997D0, 0x0CCAA009E)


@compiled
def copy_folding(source, to, pieces, state, remainder):
    """Copy so many pieces (at least one) of 128 bytes; returns 1, or 0 where nothing was done.

    All arguments but ``pieces`` and ``state``, the inverted CRC before them, are addresses. ``remainder`` gets sixteen
    bytes: their CRC, begun with state 0, is the one after the pieces.
    """
    return _copy_folding(source, to, pieces, state, remainder)


def has_instruction() -> bool:
    """Whether this processor multiplies without carries as x86 does."""
    return bool(llvm.get_host_cpu_features().get("pclmul"))


@intrinsic
def _copy_folding(typing_context: Any, source: Any, to: Any, pieces: Any, state: Any, remainder: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if not has_instruction():
            return ir.Constant(_WORD, 0)
        source, to, pieces, state, remainder = arguments
        lanes = [cgutils.alloca_once(builder, _VECTOR) for _ in range(_LANES)]
        for number, lane in enumerate(lanes):
            found = _copied(builder, source, to, number)
            if number == 0:
                begun = builder.insert_element(ir.Constant(_VECTOR, [0, 0]), state, ir.Constant(ir.IntType(32), 0))
                found = builder.xor(found, begun)
            builder.store(found, lane)
        with cgutils.for_range(builder, builder.sub(pieces, ir.Constant(_WORD, 1))) as loop:
            done = builder.shl(builder.add(loop.index, ir.Constant(_WORD, 1)), ir.Constant(_WORD, 7))
            at, target = builder.add(source, done), builder.add(to, done)
            for number, lane in enumerate(lanes):
                moved = _moved(builder, builder.load(lane), _ALL_LANES)
                builder.store(builder.xor(moved, _copied(builder, at, target, number)), lane)
        found = builder.load(lanes[0])
        for lane in lanes[1:]:
            found = builder.xor(_moved(builder, found, _ONE_LANE), builder.load(lane))
        builder.store(found, builder.inttoptr(remainder, _VECTOR.as_pointer()), align=1)
        return ir.Constant(_WORD, 1)

    return types.int64(*[types.int64] * 5), generate


def _copied(builder: Any, source: Any, to: Any, number: int) -> Any:
    """Copy one lane; the value."""
    offset = ir.Constant(_WORD, number * _LANE_BYTES)
    pointers = [builder.inttoptr(builder.add(address, offset), _VECTOR.as_pointer()) for address in (source, to)]
    found = builder.load(pointers[0], align=1)
    builder.store(found, pointers[1], align=1)
    return found


def _moved(builder: Any, value: Any, by: tuple[int, int]) -> Any:
    """The remainder so many bits further on."""
    byte = ir.IntType(8)
    multiply = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, byte]), "llvm.x86.pclmulqdq"
    )
    low, high = (
        builder.call(multiply, [value, ir.Constant(_VECTOR, list(by)), ir.Constant(byte, half)])
        for half in (0x00, 0x11)
    )
    return builder.xor(low, high)
