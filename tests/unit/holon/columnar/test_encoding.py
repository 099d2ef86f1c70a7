"""Rows that the compiled loops write are those that msgspec writes, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.columnar.encoding import FEW, Digits, Field, Thousandths, compose, encode_rows
from holon.columnar.loops import install, installed
from holon.columnar.payloads import BinaryColumn, Texts

pytestmark = pytest.mark.usefixtures("loops_installed")

INTEGERS = [0, 1, -1, 9, 10, 99, 100, -1000, 10**17, 10**18 - 1, 10**18, 2**63 - 1, -(2**63), 1234567]
TEXTS = ["", "a", "x" * 15, "x" * 16, "x" * 17, "y" * 300, 'with "quotes"', "back\\slash", "tab\t",
         "\x7f", "\x1f", "é", "😀", "z" * 15 + '"', "z" * 16 + "\n", "z" * 31 + "ä"]  # fmt: skip


def agree(fields: Mapping[str, Field], count: int) -> Sequence[bytes]:
    found = encode_rows(fields, count)
    loops = installed()
    install(None)
    try:
        assert list(found) == list(encode_rows(fields, count))
    finally:
        install(loops)
    return found


def test_all_kinds_of_values_are_written_as_msgspec_writes_them() -> None:
    count = 10 * len(INTEGERS)
    numbers = np.array(INTEGERS * 10, np.int64)
    texts = (TEXTS * 20)[:count]
    thousandths = Thousandths(np.where(numbers == -(2**63), 0, numbers))
    agree({"a": numbers, "t": Texts.of(texts), "e": thousandths, "l": texts, "z": numbers}, count)
    agree({'odd "name" é': numbers}, count)


def test_plain_rows_are_one_buffer() -> None:
    found = agree({"n": np.arange(FEW), "t": Texts.of(["plain"] * FEW)}, FEW)
    assert isinstance(found, BinaryColumn)
    assert found[1] == b'{"n":1,"t":"plain"}'


@pytest.mark.parametrize("least", [0, 1, 3, 20])
def test_digits_are_filled_up_with_zeros_and_raw_bytes_stay(least: int) -> None:
    numbers = np.array(INTEGERS * 2, np.int64)
    raw = BinaryColumn.of([text.encode() for text in (TEXTS * 2)[: len(numbers)]])
    found = compose([b"<", Digits(numbers, least), raw, b">"], len(numbers))
    assert found is not None and len(found[1]) == 0
    digits = [f"{n:0{least}d}".encode() for n in numbers.tolist()]
    assert list(found[0]) == [b"<%s%s>" % each for each in zip(digits, raw, strict=True)]


def test_rows_of_no_columns_are_empty_objects() -> None:
    assert list(agree({}, 0)) == []


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=40)), min_size=FEW, max_size=2 * FEW))
def test_any_rows_are_written_as_msgspec_writes_them(rows: list[tuple[int, str]]) -> None:
    numbers, texts = np.array([n for n, _ in rows], np.int64), [t for _, t in rows]
    agree({"n": numbers, "t": Texts.of(texts)}, len(rows))
