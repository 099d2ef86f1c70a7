"""A column of Decimals as mantissas and exponents of ten; the objects are made when they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_EXACT = Context(prec=40)
"""An int64 has 19 digits; the context of the thread may have fewer."""


class Decimals(Sequence[Decimal]):
    """Rows ``mantissas[i] * 10**exponents[i]``, with the zeros at the end that they were written with."""

    __slots__ = ("_exponents", "_mantissas")

    def __init__(self, mantissas: Numbers, exponents: Numbers) -> None:
        self._mantissas, self._exponents = mantissas, exponents

    def scaled(self) -> tuple[Numbers, Numbers]:
        """Mantissas and exponents."""
        return self._mantissas, self._exponents

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        return type(self)(self._mantissas[index], self._exponents[index])

    def tolist(self) -> list[Decimal]:
        """All of them."""
        return list(map(_EXACT.scaleb, self._mantissas.tolist(), self._exponents.tolist()))

    @overload
    def __getitem__(self, row: int) -> Decimal: ...
    @overload
    def __getitem__(self, row: slice) -> Decimals: ...
    def __getitem__(self, row: int | slice) -> Decimal | Decimals:
        if isinstance(row, slice):
            return self.take(row)
        return _EXACT.scaleb(int(self._mantissas[row]), int(self._exponents[row]))

    def __len__(self) -> int:
        return len(self._mantissas)

    def __iter__(self) -> Iterator[Decimal]:
        return iter(self.tolist())


def mantissa_and_exponent(number: Any) -> tuple[int, int] | None:
    """Those of a Decimal; None for anything else, and for what int64 does not hold."""
    if type(number) is not Decimal or not number.is_finite():
        return None
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or len(digits) > 18 or abs(exponent) > 18:
        return None
    mantissa = int("".join(map(str, digits)))
    return (-mantissa if sign else mantissa), exponent
