"""The compiled loops, where the process has them: the runtime installs them for formats, encoders and maps by key.

They change the speed of what is done and never its result; without them everything is done in Python.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from wcrdt.lattices.keyed.int_index import install_loops


class Loops(Protocol):
    """The loops that the kernels of this room have compiled.

    All arguments are int64: addresses and counts, as its functions declare. ``secret`` is an odd number that only this
    process knows.
    """

    secret: int

    def address(self, column: NDArray[Any]) -> int: ...

    def project(self, *arguments: int) -> int: ...

    def compose(self, *arguments: int) -> int: ...

    def spread(self, *arguments: int) -> int: ...

    def read_structs(self, *arguments: int) -> int: ...

    def iso_times(self, *arguments: int) -> int: ...

    def iso_datetimes(self, *arguments: int) -> int: ...

    def number_spans(self, *arguments: int) -> int: ...

    def find_ints(self, *arguments: int) -> int: ...

    def enter_ints(self, *arguments: int) -> int: ...

    def hash_spans(self, *arguments: int) -> int: ...

    def equal_spans(self, *arguments: int) -> int: ...


_installed: list[Loops] = []


def install(loops: Loops | None) -> None:
    """From now on this process has these loops (None: none)."""
    _installed[:] = [] if loops is None else [loops]
    install_loops(loops)


def installed() -> Loops | None:
    """The loops, if the process has them."""
    return _installed[0] if _installed else None
