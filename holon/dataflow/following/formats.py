"""Formatted texts as expressions: ``f"{whole}.{part:03d}"`` of columns, composed by the compiled loops where they can.

A placeholder's ``__format__`` has to give a text. It gives a mark, and the marks in a result show where values belong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.encoding import FEW, MOST_DIGITS, Digits, Part, compose
from holon.columnar.loops import installed
from holon.columnar.payloads import BinaryColumn, Texts
from holon.dataflow.following.column_functions import ColumnFunction

_MARK = re.compile("\udc80([0-9]+)\udc81")
_ZEROS = re.compile("0([1-9][0-9]?)d?")


def mark(number: int) -> str:
    """The text in place of a formatted value. No text of a format has lone surrogates, and hardly one of a program."""
    return f"\udc80{number}\udc81"


def is_marked(text: str) -> bool:
    """Whether values belong into a text."""
    return _MARK.search(text) is not None


def parts_of(text: str) -> tuple[list[str], list[int]]:
    """The texts around the marks, one more than marks, and the numbers of these."""
    found = _MARK.split(text)
    return found[::2], list(map(int, found[1::2]))


class Formatted(ColumnFunction):
    """A function of values: the text with each at its place, formatted as declared."""

    def __init__(self, texts: Sequence[str], specs: Sequence[str]) -> None:
        self._texts = texts
        self._specs = specs
        self.key = ("\n".join(map(repr, texts)), *specs)

        fields = [f"{{:{spec}}}" if spec else "{}" for spec in specs]
        escaped = [text.replace("{", "{{").replace("}", "}}") for text in texts]
        self._format = "".join(one for pair in zip(escaped, [*fields, ""], strict=True) for one in pair).format

    def __call__(self, *values: Any) -> str:
        return self._format(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Texts | None:
        """The texts of all rows; None where they are made one by one."""
        if installed() is None or rows < FEW:
            return None
        parts: list[_TextPart] = [self._texts[0]]
        for column, same, spec, text in zip(given, fixed, self._specs, self._texts[1:], strict=True):
            part = format(column, spec) if same else _part(column, spec)
            if part is None:
                return None
            parts += (part, text)
        return ComposedTexts(parts, rows)


_TextPart = str | NDArray[np.int64] | Texts | Digits
"""A text that stands in every row, or a column."""


class ComposedTexts(Texts):
    """Texts of several parts: put together when one is first read. A row of JSON takes the parts themselves."""

    __slots__ = ("_parts", "_rows")

    def __init__(self, parts: Sequence[_TextPart], rows: int) -> None:
        self._parts, self._rows = parts, rows
        self._reads, self._list, self.are_unicode = 0, None, all(map(_is_unicode, parts))

    def __getattr__(self, name: str) -> Any:
        if name not in ("buffer", "starts", "ends"):  # they have no value yet
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = compose(list(map(_whole, self._parts)), self._rows)
        assert found is not None, "the loops are gone"
        self.buffer, self.starts, self.ends = found[0].buffer, found[0].starts, found[0].ends
        return getattr(self, name)

    def __len__(self) -> int:
        return self._rows

    def json_parts(self) -> list[Part]:
        """The texts as JSON; a row with a text that JSON has to escape is odd then, as ``compose`` has it."""
        return [b'"', *map(_quoted, self._parts), b'"']


def _is_unicode(part: _TextPart) -> bool:
    """Whether it has no half of a surrogate pair; numbers have none."""
    texts = Texts.of([part]) if isinstance(part, str) else part
    return not isinstance(texts, Texts) or texts.are_unicode


def _whole(part: _TextPart) -> Part:
    if isinstance(part, str):
        return part.encode("utf-8", "surrogatepass")
    return BinaryColumn(part.buffer, part.starts, part.ends) if isinstance(part, Texts) else part


def _quoted(part: _TextPart) -> Part:
    return msgspec.json.encode(part)[1:-1] if isinstance(part, str) else part


def _part(column: Any, spec: str) -> NDArray[np.int64] | Texts | Digits | None:
    if isinstance(column, Texts):
        return column if not spec else None
    if not isinstance(column, np.ndarray) or column.dtype.kind != "i":
        return None
    zeros = _ZEROS.fullmatch(spec)
    if zeros is not None:
        return Digits(column, int(zeros[1])) if int(zeros[1]) <= MOST_DIGITS else None
    return column if spec in ("", "d") else None
