"""Bugs in how keys are found, and in how records by key are gathered."""

from __future__ import annotations

from deploy.mutants.model import Mutant

INDEX = ("tests/unit/wcrdt/test_int_index.py",)
GATHERING = (
    "tests/unit/holon/program/test_gathered_handles.py",
    "tests/unit/holon/tracks/test_insert_buffer.py",
    "tests/laws/test_gathered_inserts.py",
)
SPANS = ("tests/unit/wcrdt/test_spans.py",)

LOOKUPS = (
    Mutant(
        "records of numbers take numbers below the least one of a part",
        "holon/program/gathered_handles.py",
        "return a >= least and b >= least_2 and c >= least_3",
        "return b >= least_2 and c >= least_3",
        tests=GATHERING,
    ),
    Mutant(
        "elements that are no numbers are gathered without a check",
        "holon/program/gathered_handles.py",
        "            self._check(element)\n            self._add(element)",
        "            self._add(element)",
        tests=GATHERING,
    ),
    Mutant(
        "elements that the function may still change are gathered",
        "holon/program/gathered_handles.py",
        "<= ts_ms < MAX_TS_MS and is_lasting(element):",
        "<= ts_ms < MAX_TS_MS:",
        tests=GATHERING,
    ),
    Mutant(
        "pairs of numbers take any number for the second part",
        "holon/program/gathered_handles.py",
        "type(a) in kinds and type(b) in kinds_2 and a >= least and b >= least_2",
        "type(a) in kinds and type(b) in kinds_2 and a >= least",
        tests=GATHERING,
    ),
    Mutant(
        "records of many numbers take any number",
        "holon/program/gathered_handles.py",
        "type(number) in known and number >= lowest for",
        "type(number) in known for",
        tests=GATHERING,
    ),
    Mutant(
        "keys of several parts that Python takes for equal are one key",
        "holon/program/gathered_handles.py",
        "(type(key) is tuple and _KEYS.issuperset(map(type, key)))",
        "type(key) is tuple",
        tests=GATHERING,
    ),
    Mutant(
        "compiled hashes take in what is behind a row",
        "holon/columnar/spans_kernel.py",
        "if length < 8:",
        "if length < 0:",
        tests=SPANS,
    ),
    Mutant(
        "rows of bytes are the same by their lengths",
        "holon/columnar/spans_kernel.py",
        "== length and same(buffer + one, others + other, length)",
        "== length",
        tests=SPANS,
    ),
    Mutant(
        "rows with other rows between them are read as if there were none",
        "wcrdt/lattices/keyed/spans.py",
        "starts, ends = np.ascontiguousarray(spans.starts, np.int64), np.ascontiguousarray(spans.ends, np.int64)",
        "starts, ends = spans.starts, spans.ends",
        tests=SPANS,
    ),
    Mutant(
        "the order of keys is that of those which were there before",
        "wcrdt/lattices/keyed/keys.py",
        "if self._order is None or len(self._order) != count:",
        "if self._order is None:",
        tests=SPANS,
    ),
    Mutant(
        "a search for a key ends with the first run of slots",
        "wcrdt/lattices/keyed/int_index.py",
        "left = ~ends[each, first]",
        "left = np.zeros(len(rows), np.bool_)",
        tests=INDEX,
    ),
    Mutant(
        "a compiled search for a key takes the first slot that is taken",
        "holon/columnar/int_index_kernel.py",
        "if number_at(stored, place) == key:",
        "if number_at(stored, place) == key or place > 1:",
        tests=INDEX,
    ),
    Mutant(
        "of equal integers that lie close the last one gets the slot",
        "holon/columnar/int_index_kernel.py",
        "if distance >= np.uint64(slots) or place_at(table, np.int64(distance)) < _NONE:",
        "if distance >= np.uint64(slots):",
        tests=INDEX,
    ),
    Mutant(
        "a map reads keys too that others have added to its index",
        "wcrdt/lattices/keyed/columns.py",
        "rows = rows if len(rows) == self.height else rows[rows < self.height]",
        "pass",
        tests=("tests/laws/test_keyed_columns.py",),
    ),
    Mutant(
        "of a key that comes twice among few rows the delta has the last one",
        "wcrdt/lattices/keyed/elements.py",
        "by_key.setdefault(key, []).append(part)",
        "by_key[key] = [part]",
        tests=("tests/laws/test_lattices.py::test_every_type_keeps_the_laws[map of gset]",),
    ),
    Mutant(
        "each of few rows of a key is checked as if it were the first",
        "wcrdt/lattices/keyed/elements.py",
        "entry.check_many(few)",
        "[entry.check(each) for each in few]",
        tests=("tests/unit/wcrdt/test_lattices_documents.py",),
    ),
    Mutant(
        "the least integers are in order behind the largest, where they have slots there",
        "wcrdt/lattices/keyed/int_index.py",
        "if not _LEAST <= self._low <= _MOST - len(self._table):",
        "if False:",
        tests=INDEX,
    ),
    Mutant(
        "rows that are not of the batch pass where all windows are open",
        "holon/program/insert_arguments.py",
        "            self.check()\n            return None\n",
        "            return None\n",
        tests=("tests/unit/holon/program/test_row_watermarks.py",),
    ),
    Mutant(
        "the last bytes of a key do not count where many are hashed together",
        "holon/outputs/partitioner.py",
        "    at = np.flatnonzero(short & (lengths % _WORD > 0))\n    if len(at):\n",
        "    at = np.flatnonzero(short & (lengths % _WORD > 0))\n    if len(at) > len(h):\n",
        tests=("tests/laws/test_partitioner.py",),
    ),
)
