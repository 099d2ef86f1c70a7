"""Results for one output partition, in order: columns where they come as columns, else lists."""

from __future__ import annotations

from collections.abc import Sequence

from holon.columnar.payloads import BinaryColumn


class OutputRun:
    """Records for one output partition: values, headers and keys of the same length.

    As long as only columns are added, values and headers stay that: no object for each record.
    """

    __slots__ = ("_headers", "_pieces", "_values", "keys")

    def __init__(self) -> None:
        self._values: list[bytes] = []
        self._headers: list[bytes] = []
        self._pieces: list[tuple[BinaryColumn, BinaryColumn]] = []  # only where the lists are empty
        self.keys: list[bytes | None] = []

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def values(self) -> Sequence[bytes]:
        return self._joined()[0] if self._pieces else self._values

    @property
    def headers(self) -> Sequence[bytes]:
        return self._joined()[1] if self._pieces else self._headers

    def add(self, value: bytes, header: bytes, key: bytes | None) -> None:
        """One more record."""
        self._settle()
        self._values.append(value)
        self._headers.append(header)
        self.keys.append(key)

    def extend(self, values: Sequence[bytes], headers: Sequence[bytes], keys: Sequence[bytes | None] | None) -> None:
        """More records; keys None: none has one."""
        self._settle()
        self._values += values
        self._headers += headers
        self.keys += [None] * len(values) if keys is None else keys

    def add_columns(self, values: BinaryColumn, headers: BinaryColumn, keys: Sequence[bytes | None] | None) -> None:
        """As ``extend``, without checking each."""
        if self._values:
            self.extend(values, headers, keys)
        elif len(values):
            self._pieces.append((values, headers))
            self.keys += [None] * len(values) if keys is None else keys

    def keep(self, count: int) -> None:
        """Forget what comes after the first ``count`` records."""
        if count < len(self):
            self._settle()
            del self._values[count:], self._headers[count:], self.keys[count:]

    def drop(self, count: int) -> None:
        """Forget the first ``count`` records."""
        self._settle()
        del self._values[:count], self._headers[:count], self.keys[:count]

    def _joined(self) -> tuple[BinaryColumn, BinaryColumn]:
        if len(self._pieces) > 1:
            values, headers = zip(*self._pieces, strict=True)
            self._pieces = [(BinaryColumn.joined(values), BinaryColumn.joined(headers))]
        return self._pieces[0]

    def _settle(self) -> None:
        """From columns to lists."""
        for values, headers in self._pieces:
            self._values += values
            self._headers += headers
        self._pieces = []
