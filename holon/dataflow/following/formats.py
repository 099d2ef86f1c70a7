"""Formatted texts as expressions: ``f"{whole}.{part:03d}"`` of columns, composed by the compiled loops where they can.

A placeholder's ``__format__`` has to give a text. It gives a mark, and the marks in a result show where values belong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from holon.columnar.encoding import MOST_DIGITS, Digits, Part, compose
from holon.columnar.payloads import BinaryColumn, Texts

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


class Formatted:
    """A function of values: the text with each at its place, formatted as declared."""

    def __init__(self, texts: Sequence[str], specs: Sequence[str]) -> None:
        self._texts = texts
        self._specs = specs

        fields = [f"{{:{spec}}}" if spec else "{}" for spec in specs]
        escaped = [text.replace("{", "{{").replace("}", "}}") for text in texts]
        self._format = "".join(one for pair in zip(escaped, [*fields, ""], strict=True) for one in pair).format

    def __call__(self, *values: Any) -> str:
        return self._format(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Texts | None:
        """The texts of all rows; None where they are made one by one."""
        parts: list[Part] = [_utf8(self._texts[0])]
        for column, same, spec, text in zip(given, fixed, self._specs, self._texts[1:], strict=True):
            part = _utf8(format(column, spec)) if same else _part(column, spec)
            if part is None:
                return None
            parts += (part, _utf8(text))
        found = compose(parts, rows)
        return None if found is None else Texts(found[0].buffer, found[0].starts, found[0].ends)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _part(column: Any, spec: str) -> Part | None:
    if isinstance(column, Texts):
        return BinaryColumn(column.buffer, column.starts, column.ends) if not spec else None
    if not isinstance(column, np.ndarray) or column.dtype.kind != "i":
        return None
    zeros = _ZEROS.fullmatch(spec)
    if zeros is not None:
        return Digits(column, int(zeros[1])) if int(zeros[1]) <= MOST_DIGITS else None
    return column if spec in ("", "d") else None
