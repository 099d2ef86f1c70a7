"""``YText``, ``YMap`` and ``YArray``: the edits that these documents take, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from wcrdt.elements import plain
from wcrdt.lattices.documents.document import YDocument, library


def _place(index: Any, limit: int, what: str) -> int:
    """The index as an int between 0 and ``limit``, or an error that names the limit."""
    place = plain(index)
    if type(place) is not int:
        raise TypeError(f"a {what} is an int, not {index!r}")
    if not 0 <= place <= limit:
        raise IndexError(f"{what} {place} is outside of the document, which ends at {limit}")
    return place


class YText(YDocument[Any, str]):
    """Shared text. An element is text to append, ``(index, text)``, or ``("remove", index, length)``.

    Indices count code points of the text as it is read where the edit is made.
    """

    __slots__ = ()
    tag: ClassVar[str] = "ytext"

    def _root_type(self) -> Any:
        return library().Text

    def _edit(self, element: Any) -> Callable[[Any], None] | None:
        text = self.value
        if isinstance(element, tuple) and len(element) == 3 and element[0] == "remove":
            start = _place(element[1], len(text), "index")
            end = start + _place(element[2], len(text) - start, "length")
            return lambda root: root.__delitem__(slice(_bytes_before(text, start), _bytes_before(text, end)))
        index, chunk = element if isinstance(element, tuple) and len(element) == 2 else (len(text), element)
        place = _place(index, len(text), "index")
        words = plain(chunk)
        if type(words) is not str:
            raise TypeError(f'a text takes "text", (index, "text") or ("remove", index, length), not {element!r}')
        return (lambda root: root.insert(_bytes_before(text, place), words)) if words else None

    @property
    def value(self) -> str:
        return str(self._open())


class YMap(YDocument[tuple[Any, ...], dict[str, Any]]):
    """Shared map of text to plain values: ``("set", key, value)`` or ``("remove", key)``.

    Of concurrent writes to a key Yjs keeps the one with the greater client id; no clock is read. Numbers are those of
    JSON: ``1`` and ``1.0`` are one, ints beyond 64 bits and Decimals are refused.
    """

    __slots__ = ()
    tag: ClassVar[str] = "ymap"

    def _root_type(self) -> Any:
        return library().Map

    def _edit(self, element: tuple[Any, ...]) -> Callable[[Any], None] | None:
        match element:
            case ("set", str() as key, x):
                name, value = plain(key), _to_yjs(plain(x))
                return lambda root: root.__setitem__(name, value)
            case ("remove", str() as key):
                name = plain(key)
                return (lambda root: root.__delitem__(name)) if name in self._open() else None
        raise TypeError(f'a map takes ("set", text, value) or ("remove", text), not {element!r}')

    @property
    def value(self) -> dict[str, Any]:
        found = self._open().to_py() or {}
        return {key: _from_yjs(found[key]) for key in sorted(found)}


class YArray(YDocument[tuple[Any, ...], tuple[Any, ...]]):
    """Shared list of plain values: ``("append", x)``, ``("insert", index, x)`` or ``("remove", index)``.

    Values are those of ``YMap``.
    """

    __slots__ = ()
    tag: ClassVar[str] = "yarray"

    def _root_type(self) -> Any:
        return library().Array

    def _edit(self, element: tuple[Any, ...]) -> Callable[[Any], None] | None:
        size = len(self._open())
        match element:
            case ("append", x):
                value = _to_yjs(plain(x))
                return lambda root: root.append(value)
            case ("insert", index, x):
                place, value = _place(index, size, "index"), _to_yjs(plain(x))
                return lambda root: root.insert(place, value)
            case ("remove", index):
                place = _place(index, size - 1, "index")
                return lambda root: root.__delitem__(place)
        raise TypeError(f'an array takes ("append", x), ("insert", index, x) or ("remove", index), not {element!r}')

    @property
    def value(self) -> tuple[Any, ...]:
        return tuple(map(_from_yjs, self._open().to_py() or ()))


def _bytes_before(text: str, index: int) -> int:
    """pycrdt counts bytes of UTF-8."""
    return len(text[:index].encode())


def _to_yjs(x: Any) -> Any:
    """The value as pycrdt takes it; raises for one that a Yjs document cannot hold."""
    if isinstance(x, tuple):
        return [_to_yjs(part) for part in x]
    if type(x) is int and not -(2**63) <= x < 2**63:
        raise ValueError(f"{x} does not fit the 64 bits of an int in a Yjs document")
    if x is not None and type(x) not in (bool, int, float, str, bytes):
        raise TypeError(f"a Yjs document cannot hold a {type(x).__name__}")
    return x


def _from_yjs(x: Any) -> Any:
    """The value in its one form: whole numbers as ints, lists as tuples."""
    if isinstance(x, float) and x.is_integer() and abs(x) <= 2**53:
        return int(x)
    if isinstance(x, bytearray):
        return bytes(x)
    if isinstance(x, list):
        return tuple(map(_from_yjs, x))
    return x
