"""Bugs in outputs as files: commits, batches, formats."""

from __future__ import annotations

from deploy.mutants.model import Mutant

FOLDERS = ("tests/unit/nodes/file_sinks/test_folders.py",)
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
