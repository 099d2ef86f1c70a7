"""Bugs in what jobs in a row, and a job that goes on behind its end, rest on."""

from __future__ import annotations

from deploy.mutants.model import Mutant

DUPLICATES = "tests/unit/holon/tracks/test_upstream_duplicates.py"
UPSTREAM = "tests/unit/nodes/streams/test_upstream.py"
CONTINUING = "tests/unit/nodes/streams/test_continuing.py"
FEEDING = "tests/unit/nodes/transactions/test_bound_streams.py"

CHAINS = (
    Mutant(
        "the last output of another job counts again when it is repeated",
        "holon/tracks/upstream_duplicates.py",
        "        if place <= track.last:\n",
        "        if place < track.last:\n",
        tests=(DUPLICATES,),
    ),
    Mutant(
        "outputs of an older incarnation count",
        "holon/tracks/upstream_duplicates.py",
        "        if identity.incarnation < current:\n",
        "        if identity.incarnation < 0:\n",
        tests=(DUPLICATES,),
    ),
    Mutant(
        "a checkpoint forgets which outputs were seen",
        "holon/tracks/task.py",
        "            self.records.duplicates.seen(),\n",
        "            type(self.records.duplicates.seen())(),\n",
        tests=(DUPLICATES,),
    ),
    Mutant(
        "a run of outputs that overlaps what was seen is taken for new as a whole",
        "holon/tracks/upstream_duplicates.py",
        "        if (int(at[0]), int(n[0])) <= track.last:\n",
        "        if (int(at[-1]), int(n[-1])) <= track.last:\n",
        tests=(DUPLICATES,),
    ),
    Mutant(
        "duplicates are no part of the prefix",
        "holon/formats/input_run.py",
        "            passed=self.last,\n",
        "            passed=-1,\n",
        tests=(DUPLICATES,),
    ),
    Mutant(
        "the newest incarnation counts as soon as its topics are there",
        "nodes/streams/upstream.py",
        "found[job] = 0 if started is None else origin_of(started)",
        "assert started is not None",
        tests=(UPSTREAM,),
    ),
    Mutant(
        "a feed forgets what it has fed of another job",
        "nodes/transactions/bound_streams.py",
        "            self._seen = self._requested_seen\n",
        "",
        tests=(FEEDING,),
    ),
    Mutant(
        "a continued job answers a window again",
        "holon/tracks/snapshot.py",
        "max(watermark_ms, closed_ms + lateness_ms)",
        "closed_ms",
        tests=(CONTINUING,),
    ),
    Mutant(
        "what a later stage has answered is forgotten when a job is continued",
        "holon/tracks/snapshot.py",
        "max([self.record.closing[1], self.window.emitted_end_ms, *ends])",
        "self.record.closing[1]",
        tests=(CONTINUING,),
    ),
    Mutant(
        "a continued job gives its outputs identities of their own",
        "nodes/machine/workload.py",
        "            run.origin,\n",
        "            run.incarnation,\n",
        tests=(CONTINUING,),
    ),
    Mutant(
        "a takeover in a continued job does not see what is written",
        "nodes/streams/io/output_identities.py",
        "        for (partition_of, track), runs in ascents(chunk.headers, run.job.name, run.origin).items():\n",
        "        for (partition_of, track), runs in ascents(chunk.headers, run.job.name, run.incarnation).items():\n",
        tests=(CONTINUING,),
    ),
)
