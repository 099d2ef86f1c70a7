"""Bugs in columns of state that lie in files, and in the shards of their keys."""

from __future__ import annotations

from deploy.mutants.model import Mutant

MAPPED = "nodes/streams/mapped_columns.py"
MEMORY = "wcrdt/column_memory.py"
INDEX = "wcrdt/lattices/keyed/int_index.py"
ARGUMENTS = "wcrdt/lattices/keyed/arguments.py"
RANKING = "wcrdt/lattices/keyed/ranking.py"
LAW = ("tests/laws/test_columns_in_files.py",)
TESTS = ("tests/unit/nodes/streams/test_mapped_columns.py", "tests/laws/test_columns_in_files.py")

SHARDING = "wcrdt/lattices/keyed/sharding.py"
SHARDS = ("tests/laws/test_shards.py",)

KNOWN_SHARDS = (
    Mutant(
        "keys that came since a map was cut belong to the first shard",
        SHARDING,
        "        shards.column[shards.count : known] = sharding.of_keys(index.take(slice(shards.count, known)))\n",
        "",
        tests=SHARDS,
    ),
    Mutant(
        "shards of one number of partitions are those of another",
        SHARDING,
        " or shards.by != sharding:",
        ":",
        tests=SHARDS,
    ),
    Mutant(
        "a delta has the shards of the first keys of its map",
        SHARDING,
        "by_place[: columns.height] if columns.places is None else by_place[columns.places]",
        "by_place[: columns.height]",
        tests=SHARDS,
    ),
    Mutant(
        "all keys are hashed for each shard that wants them",
        SHARDING,
        "        shards.count = known\n",
        "",
        tests=SHARDS,
    ),
)

COLUMNS_IN_FILES = (
    Mutant(
        "two columns of a file have the same pages",
        MAPPED,
        "        self.left -= size\n",
        "",
        tests=TESTS,
    ),
    Mutant(
        "a column that has gone counts for ever",
        MAPPED,
        "                self._memory_bytes -= size\n",
        "                pass\n",
        tests=TESTS,
    ),
    Mutant(
        "pages of a column that has gone stay on the disk",
        MAPPED,
        "            self.memory.madvise(mmap.MADV_REMOVE, start, size)\n",
        "            pass\n",
        tests=TESTS,
    ),
    Mutant(
        "pages of a neighbour leave the disk with a column",
        MAPPED,
        "mmap.MADV_REMOVE, start, size)",
        "mmap.MADV_REMOVE, 0, size)",
        tests=TESTS,
    ),
    Mutant(
        "a column in a file begins with zeros whatever it is to hold",
        MAPPED,
        "            if fill != 0:\n                column[:] = fill\n",
        "",
        tests=TESTS,
    ),
    Mutant(
        "a column that came from elsewhere is empty in its file",
        MAPPED,
        "            copy[:] = column\n",
        "",
        tests=TESTS,
    ),
    Mutant(
        "no column is counted, so all lie in memory",
        MAPPED,
        "        self._memory_bytes += column.nbytes\n",
        "",
        tests=TESTS,
    ),
    Mutant(
        "a full disk is reported once for ever",
        MAPPED,
        "            self._is_full = False\n            self._files",
        "            self._files",
        tests=TESTS,
    ),
    Mutant(
        "a full disk is asked again for each column",
        MAPPED,
        "                self._until_next_try = self.file_bytes\n",
        "",
        tests=TESTS,
    ),
    Mutant(
        "a disk that was full once is never asked again",
        MAPPED,
        "                self._until_next_try -= whole\n",
        "",
        tests=TESTS,
    ),
    Mutant(
        "payloads of keyed extremes lie in memory",
        ARGUMENTS,
        "        self._payloads = prepared[1].held()\n",
        "        self._payloads = prepared[1]\n",
        tests=LAW,
    ),
    Mutant(
        "decoded payloads of keyed extremes lie in memory",
        ARGUMENTS,
        "Payloads(owners, keys).held()",
        "Payloads(owners, keys)",
        tests=LAW,
    ),
    Mutant(
        "pairs of keyed rankings lie in memory",
        RANKING,
        "prepared.pairs.held(), floors",
        "prepared.pairs, floors",
        tests=LAW,
    ),
    Mutant(
        "decoded pairs of keyed rankings lie in memory",
        RANKING,
        "Pairs(owners, scores, items).held()",
        "Pairs(owners, scores, items)",
        tests=LAW,
    ),
    Mutant(
        "texts that are payloads lie in memory",
        "wcrdt/lattices/keyed/spans.py",
        "self.buffer if may_stay(self.buffer.nbytes) else copied(self.buffer)",
        "self.buffer",
        tests=LAW,
    ),
    Mutant(
        "segments of a log of rows are joined in memory",
        "wcrdt/lattices/rows/row_log.py",
        "tuple(_held(_concatenated(parts)) for parts in columns)",
        "tuple(_concatenated(parts) for parts in columns)",
        tests=LAW,
    ),
    Mutant(
        "a forked child writes to the columns of its parent",
        MAPPED,
        "        columns.part_from_parent()\n",
        "        pass\n",
        tests=("tests/integration/streams/test_state_beyond_memory.py",),
    ),
    Mutant(
        "copies of long columns are the columns",
        MEMORY,
        "    fresh = filled(len(column), 0, column.dtype)\n    fresh[:] = column\n    return fresh\n",
        "    return column\n",
        tests=TESTS,
    ),
    Mutant(
        "columns that grow do so in memory",
        INDEX,
        "    longer = filled(max(",
        "    longer = np.full(max(",
        tests=TESTS,
    ),
    Mutant(
        "tables of ints lie in memory",
        INDEX,
        "            self._table = filled(1 << bits, -1, np.int32)\n",
        "            self._table = np.full(1 << bits, -1, np.int32)\n",
        tests=TESTS,
    ),
    Mutant(
        "keys that were decoded lie in memory",
        INDEX,
        "kept(np.ascontiguousarray(keys, np.int64))",
        "np.ascontiguousarray(keys, np.int64)",
        tests=TESTS,
    ),
)
