"""Loads and stores at an address, which Python cannot express, compiled to single instructions.

The caller is responsible for the address: the buffers are padded (``PAD_BYTES``). Compiled functions that hand arrays
to each other count references with locked instructions, four a call; addresses cost nothing.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTE, _WORD, _MASK = ir.IntType(8), ir.IntType(64), ir.IntType(16)
_LANES = 16


@intrinsic
def load_word(typing_context: Any, address: Any) -> Any:
    """The eight bytes at an address, as the machine orders them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], _WORD.as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(types.int64), generate


@intrinsic
def number_at(typing_context: Any, table: Any, index: Any) -> Any:
    """``table[index]`` of a column of int64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(builder, arguments), align=8)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def put_number(typing_context: Any, table: Any, index: Any, value: Any) -> Any:
    """``table[index] = value`` for a column of int64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _place(builder, arguments), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def byte_at(typing_context: Any, address: Any) -> Any:
    """The byte at an address, 0 to 255."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], _BYTE.as_pointer())
        return builder.zext(builder.load(pointer), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def place_at(typing_context: Any, table: Any, index: Any) -> Any:
    """``table[index]`` of a column of int32 at any address, as if it were unsigned."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        offset = builder.shl(arguments[1], ir.Constant(_WORD, 2))
        pointer = builder.inttoptr(builder.add(arguments[0], offset), ir.IntType(32).as_pointer())
        return builder.zext(builder.load(pointer, align=1), _WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def put_place(typing_context: Any, table: Any, index: Any, value: Any) -> Any:
    """``table[index] = value`` for a column of int32 at any address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        offset = builder.shl(arguments[1], ir.Constant(_WORD, 2))
        pointer = builder.inttoptr(builder.add(arguments[0], offset), ir.IntType(32).as_pointer())
        builder.store(builder.trunc(arguments[2], ir.IntType(32)), pointer, align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def put_byte(typing_context: Any, address: Any, value: Any) -> Any:
    """Store one byte."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], _BYTE.as_pointer())
        builder.store(builder.trunc(arguments[1], _BYTE), pointer)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def copy_sixteen(typing_context: Any, to: Any, source: Any) -> Any:
    """Copy sixteen bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointers = [builder.inttoptr(address, ir.VectorType(_BYTE, _LANES).as_pointer()) for address in arguments]
        builder.store(builder.load(pointers[1], align=1), pointers[0], align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _place(builder: Any, arguments: Any) -> Any:
    table, index = arguments[:2]
    offset = builder.shl(index, ir.Constant(_WORD, 3))
    return builder.inttoptr(builder.add(table, offset), _WORD.as_pointer())


@intrinsic
def plain_bytes(typing_context: Any, address: Any) -> Any:
    """How many of the sixteen bytes at an address come before the first that ends or spoils a plain JSON text.

    Those are the quotation mark, the backslash, control characters and everything that is not ASCII.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_BYTE, _LANES)
        pointer = builder.inttoptr(arguments[0], vector.as_pointer())
        found = builder.load(pointer, align=1)

        def each(byte: int) -> Any:
            return ir.Constant(vector, [ir.Constant(_BYTE, byte)] * _LANES)

        # Signed: what is not ASCII is below the blank too.
        mask = builder.icmp_signed("<", found, each(0x20))
        for byte in b'"\\':
            mask = builder.or_(mask, builder.icmp_unsigned("==", found, each(byte)))
        bits = builder.zext(builder.bitcast(mask, _MASK), _WORD)
        bits = builder.or_(bits, ir.Constant(_WORD, 1 << _LANES))
        return builder.cttz(bits, ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@intrinsic
def put_word(typing_context: Any, address: Any, value: Any) -> Any:
    """Store eight bytes at any address, as the machine orders them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _WORD.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


@intrinsic
def half_at(typing_context: Any, table: Any, index: Any) -> Any:
    """``table[index]`` of a column of two bytes each at any address, unsigned."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(_half(builder, arguments), align=1), _WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def put_half(typing_context: Any, table: Any, index: Any, value: Any) -> Any:
    """``table[index] = value`` for a column of two bytes each at any address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(builder.trunc(arguments[2], _MASK), _half(builder, arguments), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _half(builder: Any, arguments: Any) -> Any:
    offset = builder.shl(arguments[1], ir.Constant(_WORD, 1))
    return builder.inttoptr(builder.add(arguments[0], offset), _MASK.as_pointer())


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Bits that are 0 below the lowest that is not; the word is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:
    """Bits that are 0 above the highest that is not; the word is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def high_product(typing_context: Any, one: Any, other: Any) -> Any:
    """The upper 64 bits of a product of 128."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _WORD)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def float_of(typing_context: Any, bits: Any) -> Any:
    """The float of these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def bits_of(typing_context: Any, number: Any) -> Any:
    """The bits of a float."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _WORD)

    return types.int64(types.float64), generate
