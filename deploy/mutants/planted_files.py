"""Bugs in outputs as files: commits, batches, formats; and in autoscaling."""

from __future__ import annotations

from deploy.mutants.model import Mutant

DECISIONS = "tests/unit/nodes/machine/ownership/test_decisions.py"
DECIDING = "tests/unit/nodes/transactions/autoscaling/test_deciding.py"
DECIDING_FILE = "nodes/transactions/autoscaling/deciding.py"
AUTOSCALING = "tests/laws/test_autoscaling.py"

FOLDERS = ("tests/unit/nodes/file_sinks/test_folders.py",)
DEAD_ROWS = ("tests/unit/nodes/file_sinks/test_dead_rows.py",)
FORMATS = ("tests/unit/nodes/file_sinks/test_formats.py",)
SINK = ("tests/unit/nodes/file_sinks/test_sink.py",)
STORES = ("tests/integration/file_sinks/test_stores.py",)

FILES = (
    Mutant(
        "files are written before their commit",
        "nodes/file_sinks/partition.py",
        "        if not self._commits.add(made):\n",
        "        self._write(batch, files)\n        if not self._commits.add(made):\n",
        tests=SINK,
    ),
    Mutant(
        "a commit whose files are not finished is not written again",
        "nodes/file_sinks/partition.py",
        "if not self._commits.is_finished(found):",
        "if False:",
        tests=SINK,
    ),
    Mutant(
        "a finished commit is written again at each start",
        "nodes/file_sinks/partition.py",
        "if not self._commits.is_finished(found):",
        "if True:",
        tests=SINK,
    ),
    Mutant(
        "a batch that is written again takes its own rows for duplicates",
        "nodes/file_sinks/partition.py",
        "found.before, whole=True)",
        "found.after, whole=True)",
        tests=SINK,
    ),
    Mutant(
        "a batch that is written again may end elsewhere",
        "nodes/file_sinks/partition.py",
        "if not whole and (",
        "if (",
        tests=SINK,
    ),
    Mutant(
        "a folder is complete although an open transaction hides rows",
        "nodes/file_sinks/run.py",
        "if has_ended and all(sink.caught_up() for sink in sinks):",
        "if has_ended:",
        tests=("tests/unit/nodes/file_sinks/test_run.py",),
    ),
    Mutant(
        "files of a job that began anew go on",
        "nodes/file_sinks/run.py",
        "if origin > sink.incarnations.get(self._job.name, origin):",
        "if False:",
        tests=("tests/unit/nodes/file_sinks/test_run.py",),
    ),
    Mutant(
        "the next batch does not know what the last one had",
        "nodes/file_sinks/partition.py",
        "_NOTHING if self._last is None else self._last.after",
        "_NOTHING",
        tests=SINK,
    ),
    Mutant(
        "a commit of another process is taken for the own",
        "nodes/file_sinks/commits.py",
        "return created and self._is_newest(commit.number)",
        "return True",
        tests=SINK,
    ),
    Mutant(
        "a number that was deleted is created again",
        "nodes/file_sinks/commits.py",
        "return created and self._is_newest(commit.number)",
        "return created",
        tests=SINK,
    ),
    Mutant(
        "a commit that was read is not looked for again",
        "nodes/file_sinks/commits.py",
        "if data is not None and self._is_newest(number):",
        "if data is not None:",
        tests=SINK,
    ),
    Mutant(
        "the newest commit is deleted too",
        "nodes/file_sinks/commits.py",
        "if number <= commit.number - KEPT:",
        "if number <= commit.number:",
        tests=SINK,
    ),
    Mutant(
        "rows of a newer incarnation go on in the same folder",
        "nodes/file_sinks/partition.py",
        "if identity.incarnation > counted:",
        "if False:",
        tests=SINK,
    ),
    Mutant(
        "the mark of a complete folder stays when rows come",
        "nodes/file_sinks/partition.py",
        "        if batch.rows:\n            self._target.before_rows()\n",
        "",
        tests=SINK,
    ),
    Mutant(
        "a row waits for ever",
        "nodes/file_sinks/sink.py",
        "is_due = flush or waited_ms >= self.files.commit_after_ms",
        "is_due = flush",
        tests=SINK,
    ),
    Mutant(
        "a window is of the day that begins where it ends",
        "nodes/file_sinks/folders.py",
        "return _of_ms(identity.position - 1)",
        "return _of_ms(identity.position)",
        tests=FOLDERS,
    ),
    Mutant(
        "a value leaves its folder",
        "nodes/file_sinks/folders.py",
        'named = quote(text, safe=" ")',
        'named = quote(text, safe=" /")',
        tests=FOLDERS,
    ),
    Mutant(
        "fractions are cut in a column of ints",
        "nodes/file_sinks/parquet.py",
        "        if self._decoder is None:\n            self._check(rows)\n",
        "",
        tests=FORMATS,
    ),
    Mutant(
        "members of sets come in the order of the process",
        "nodes/file_sinks/parquet.py",
        'builtin_types=_KEPT, order="deterministic")',
        "builtin_types=_KEPT)",
        tests=FORMATS,
    ),
    Mutant(
        "a promised batch with dead rows is repeated without them",
        "nodes/file_sinks/partition.py",
        "self._files(batch, found.sets_aside)",
        "self._files(batch, self._target.sets_aside)",
        tests=DEAD_ROWS,
    ),
    Mutant(
        "a row that fits alone is dead for its neighbour",
        "nodes/file_sinks/dead_rows.py",
        "            if len(half) == 1:\n",
        "            if len(half) <= 2:\n",
        tests=DEAD_ROWS,
    ),
    Mutant(
        "dead rows count among the rows of files",
        "nodes/file_sinks/partition.py",
        "rows + len(batch.rows) - len(files.dead),",
        "rows + len(batch.rows),",
        tests=DEAD_ROWS,
    ),
    Mutant(
        "a name of a folder is taken over",
        "nodes/file_sinks/stores.py",
        "os.link(staged, path)",
        "__import__('shutil').copy(staged, path)",
        tests=STORES,
    ),
    Mutant(
        "a partial line feed stays in a line of JSON",
        "nodes/file_sinks/formats.py",
        'if b"\\n" in payload or b"\\r" in payload else payload',
        "if False else payload",
        tests=FORMATS,
    ),
)

SCALING = tuple(
    Mutant(name, file, old, new, tests=tests)
    for name, file, old, new, tests in (
        (
            "an opposite decision does not wait for the cool-down",
            DECIDING_FILE,
            "if passed_s >= limits.cooldown_s:",
            "if True:",
            (AUTOSCALING,),
        ),
        (
            "samples before the last decision count for the next one",
            DECIDING_FILE,
            "if last is None or each.at_ms > last.at_ms]",
            "if True]",
            (DECIDING,),
        ),
        (
            "one overloaded sample of several is enough",
            DECIDING_FILE,
            "    if all(reasons):\n",
            "    if any(reasons):\n",
            (DECIDING,),
        ),
        (
            "a node leaves though those that stay get too busy",
            DECIDING_FILE,
            "expected = busy * newest.nodes / (newest.nodes - 1)",
            "expected = busy",
            (AUTOSCALING,),
        ),
        (
            "more nodes than the limit are started at once",
            DECIDING_FILE,
            "2 * newest.nodes, newest.partitions, limits.max_nodes)",
            "2 * newest.nodes, newest.partitions)",
            (AUTOSCALING,),
        ),
        (
            "the second decision of a number counts too",
            "nodes/machine/ownership/decisions.py",
            "if _number(argument) > self.number:",
            "if _number(argument) >= self.number > 0 or _number(argument) == 1:",
            (DECISIONS,),
        ),
        (
            "a checkpoint of the control topic forgets decisions",
            "nodes/machine/ownership/ownership.py",
            ", decisions=self.decisions.state(),",
            ",",
            (DECISIONS,),
        ),
        (
            "who reads from a checkpoint of a release before numbers decisions from 1 again",
            "nodes/machine/ownership/decisions.py",
            "return 1 + (control_end if self.is_lost else self.number)",
            "return 1 + self.number",
            (DECISIONS,),
        ),
        (
            "a decision that is being carried out is made again",
            DECIDING_FILE,
            "return before <= now < wanted or wanted < now <= before",
            "return False",
            (DECIDING,),
        ),
        (
            "an autoscaler acts on a decision that another one has won",
            "nodes/transactions/autoscaling/autoscaler.py",
            "        if outcome.won:\n",
            "        if outcome.decision:\n",
            ("tests/unit/nodes/transactions/autoscaling/test_autoscaler.py",),
        ),
    )
)

JOIN_TESTS = ("tests/unit/holon/dataflow/test_joins.py",)
JOIN_LAWS = ("tests/laws/test_flow_joins.py",)
ROW_LAWS = ("tests/unit/wcrdt/test_row_log.py",)

JOINS = (
    Mutant(
        "a join gives one pair for each row where keys are far apart",
        "holon/dataflow/joins/pairs.py",
        'return first, np.searchsorted(ascending, keys, "right") - first',
        'return first, np.minimum(np.searchsorted(ascending, keys, "right") - first, 1)',
        tests=JOIN_TESTS,
    ),
    Mutant(
        "a join leaves the largest key of the right side out",
        "holon/dataflow/joins/pairs.py",
        "inside = (keys >= low) & (keys <= high)",
        "inside = (keys >= low) & (keys < high)",
        tests=JOIN_TESTS,
    ),
    Mutant(
        "a join takes places among sorted keys for those of rows",
        "holon/dataflow/joins/pairs.py",
        "return mine, order[first[mine] + within]",
        "return mine, first[mine] + within",
        tests=JOIN_TESTS,
    ),
    Mutant(
        "a join meets True where the key is 1",
        "holon/dataflow/joins/pairs.py",
        "else [identity(plain(key)) for key in keys]",
        "else keys",
        tests=JOIN_TESTS,
    ),
    Mutant(
        "different tuples are one key of a join",
        "holon/dataflow/joins/pairs.py",
        "codes * (int(others.max(initial=0)) + 1) + others",
        "codes * int(others.max(initial=0)) + others",
        tests=JOIN_LAWS,
    ),
    Mutant(
        "a join takes rows of united streams, whose order depends on batches",
        "holon/dataflow/joins/step.py",
        "if self.is_parted:",
        "if self.is_parted and self.stage > 0:",
        tests=JOIN_TESTS,
    ),
    Mutant(
        "a key of a join fails at its window, and not at its record",
        "holon/dataflow/joins/step.py",
        "if not self._key_is_field:",
        "if self._key_is_field:",
        tests=JOIN_TESTS,
    ),
    Mutant(
        "a join sends the left side to all partitions, too",
        "holon/dataflow/adding.py",
        "windows=windows, alone=True, name=name",
        "windows=windows, name=name",
        tests=JOIN_TESTS,
    ),
    Mutant(
        "a log of rows takes rows that it has once more, where more came since",
        "wcrdt/lattices/rows/row_log.py",
        "elif theirs[0].start >= mine[-1].end:",
        "elif theirs[0].start >= mine[-1].start and theirs[-1].end > mine[-1].end:",
        tests=ROW_LAWS,
    ),
    Mutant(
        "a log of rows writes a column of ints as elements where one of them came alone",
        "wcrdt/lattices/rows/row_log.py",
        "return _in_one_form(list(map(plain, rows_of(given))))",
        "return list(map(plain, rows_of(given)))",
        tests=ROW_LAWS,
    ),
)
"""Bugs in joins of flows, and in the rows that they keep."""
