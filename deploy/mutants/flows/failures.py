"""Bugs in what an error of a flow names: step, record and row."""

from __future__ import annotations

from deploy.mutants.model import Mutant

PATH = "holon/dataflow/outputs/failures.py"
FAILURES = ("tests/unit/holon/dataflow/test_failures.py",)
SINKS = ("tests/unit/holon/dataflow/test_sinks.py",)

NAMED_FAILURES = (
    Mutant(
        "the search for a row that fails goes into the half that does not",
        PATH,
        "            high = middle\n        else:\n            low = middle",
        "            low = middle\n        else:\n            high = middle",
        tests=FAILURES,
    ),
    Mutant(
        "a late row is blamed for a failure that it does not cause",
        PATH,
        "return rows.take(np.delete(np.arange(len(rows)), late))",
        "return rows",
        tests=FAILURES,
    ),
    Mutant(
        "rows of a late stream are never blamed",
        PATH,
        "if len(late) and step.late is not None:",
        "if len(late) and step.late is None:",
        tests=FAILURES,
    ),
    Mutant(
        "the first record of a batch is named, whichever failed",
        PATH,
        "FailedStep(step.label, error, int(offsets[place]))",
        "FailedStep(step.label, error, int(offsets[0]))",
        tests=FAILURES,
    ),
    Mutant(
        "an error names the key of the window's first group",
        PATH,
        'as_list(groups.columns["key"])[place]',
        'as_list(groups.columns["key"])[0]',
        tests=FAILURES,
    ),
    Mutant(
        "dead letters of a flow do not name the step",
        "holon/dataflow/compiling.py",
        "batch.offsets[0] != batch.offsets[-1]:",
        "batch.offsets[0] <= batch.offsets[-1]:",
        tests=FAILURES,
    ),
    Mutant(
        "dead records vanish from a run without a log, and no warning tells of them",
        "holon/testing.py",
        '(("dead", test.dead()), ("late", test.late()))',
        '(("late", test.late()),)',
        tests=FAILURES,
    ),
    Mutant(
        "a sink whose topic is called as an output of the runtime cannot be built",
        "holon/dataflow/flow.py",
        'f"sink:{sink.topic}" if sink.topic in RUNTIME_OUTPUTS else sink.topic',
        "sink.topic",
        tests=SINKS,
    ),
)
