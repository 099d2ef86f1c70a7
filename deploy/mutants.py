"""Plant known bugs, one at a time, in a copy of the tree, and demand that the simulation finds each.

    python deploy/mutants.py [--seeds N] [--only WORD] [--list]

A mutant that survives means that the simulation would not notice that bug. Exit code 1 if one does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("wcrdt", "holon", "nodes")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug: ``old`` must stand exactly once in the file. ``cases``: jobs that can show it ("" for all)."""

    name: str
    file: str
    old: str
    new: str
    case: str = ""


MUTANTS = (
    Mutant(
        "watermark one too high",
        "holon/source.py",
        "return ts_ms - self.delay_ms",
        "return ts_ms - self.delay_ms + 1",
    ),
    Mutant(
        "windows answered one ms early",
        "wcrdt/replica.py",
        "return window.end_ms <= self.complete_through_ms",
        "return window.end_ms <= self.complete_through_ms + 1",
        "await",
    ),
    Mutant(
        "frontier is the maximum",
        "wcrdt/replica.py",
        "self._frontier = min(slot.record.watermark_ms for slot in self.slots)",
        "self._frontier = max(slot.record.watermark_ms for slot in self.slots)",
    ),
    Mutant(
        "allowed lateness forgotten at completion",
        "wcrdt/replica.py",
        "return frontier if frontier >= END_OF_TIME_MS else frontier - self.lateness_ms",
        "return frontier",
        "late",
    ),
    Mutant(
        "a delta is joined whatever it begins at",
        "wcrdt/slots.py",
        "if delta.since > self.position and not delta.full:",
        "if False:",
    ),
    Mutant(
        "counts are added when slots are merged",
        "wcrdt/slots.py",
        "            have.merge(value)\n",
        "            [have.insert(n) for n in [1] if have.tag == 'gcounter']\n            have.merge(value)\n",
    ),
    Mutant(
        "old deltas are applied",
        "wcrdt/slots.py",
        "        if delta.to <= self.position:\n            return Applied.OLD\n",
        "",
    ),
    Mutant(
        "what is on the output already is written again, behind the reader",
        "holon/identity.py",
        "if seen <= self._last.get(key, NOTHING_SEEN):",
        "if False:",
    ),
    Mutant(
        "the last result of a run is taken for written",
        "nodes/machine/runner.py",
        "if (identity.position, identity.n) <= last.get(track, NOTHING_SEEN):",
        "if (identity.position, identity.n - 1) <= last.get(track, NOTHING_SEEN):",
    ),
    Mutant(
        "a checkpoint without waiting for acknowledgements, saved before outputs",
        "nodes/machine/workload.py",
        "            self._flush(runner, always=True)\n            runner.begin_checkpoint(self.now_ms)\n"
        "        save = ",
        "            runner.begin_checkpoint(self.now_ms)\n            runner.acknowledged = 10**9\n        save = ",
    ),
    Mutant(
        "the older claim wins",
        "nodes/machine/ownership.py",
        "if claim.version != state.version + 1:",
        "if claim.version > state.version + 1:",
    ),
    Mutant(
        "every second delta is not sent",
        "nodes/machine/workload.py",
        "        self.effects.append(runner.broadcast(delta))\n        if not runner.idle_allowed",
        "        if runner.ticket % 2 == 0:\n            self.effects.append(runner.broadcast(delta))\n"
        "        else:\n            runner.ticket += 1\n        if not runner.idle_allowed",
    ),
    Mutant(
        "no full slot for whoever asks",
        "nodes/machine/workload.py",
        "            case f.SlotAsked(partition, by) if by != me:\n                self._slot_asked(partition)\n",
        "",
    ),
    Mutant(
        "windows dropped on the newest checkpoint alone",
        "nodes/machine/keeping.py",
        "    answered = ownership.durable_answered(KEPT_CHECKPOINTS)\n"
        "    return job.droppable_through(answered, ownership.durable_watermark(KEPT_CHECKPOINTS))",
        "    return job.droppable_through(ownership.durable_answered(1), ownership.durable_watermark(1)) + 10**6",
    ),
    Mutant(
        "own runners do not keep windows",
        "nodes/machine/workload.py",
        "through = min(recorded, keeping.unread_after_ms(self.job, self.runners.values()))",
        "through = recorded",
        "query1",
    ),
    Mutant(
        "no rewind where history is lacking",
        "nodes/machine/workload.py",
        "if keeping.lacks_history(self.job, self.replica, runner):",
        "if False:",
        "running",
    ),
    Mutant(
        "a full slot with holes is taken",
        "nodes/machine/keeping.py",
        "    if delta.dropped_through_ms > unread_after_ms(job, runners.values()):\n        return False\n",
        "",
        "running",
    ),
    Mutant(
        "idle partitions hold each other",
        "nodes/machine/idleness.py",
        "if now_ms - self._seen[p][1] < timeout_ms]",
        "if True]",
        "idle",
    ),
    Mutant(
        "private windows are answered before they are replayed",
        "holon/window_track.py",
        "if not self._has_private:",
        "if True:",
        "query1",
    ),
    Mutant(
        "late records are counted twice",
        "holon/record_track.py",
        "self.counts.late += len(admitted.late)",
        "self.counts.late += 2 * len(admitted.late)",
    ),
    Mutant(
        "a boundary record is late",
        "holon/admit.py",
        "return any(w.end_ms + self.lateness_ms > watermark_ms for w in assigner.windows_for(ts_ms))",
        "return any(w.end_ms + self.lateness_ms > watermark_ms + 1 for w in assigner.windows_for(ts_ms))",
    ),
    Mutant(
        "the window track's Locals are not in the snapshot",
        "holon/task.py",
        'self.scope.encode_locals("window")',
        "{}",
        "running",
    ),
    Mutant(
        "punctuation does not void the deltas that cross it",
        "wcrdt/replica.py",
        "if delta.punctuations < slot.punctuation_count:",
        "if False:",
        "idle",
    ),
    Mutant(
        "results leave before their delta is read back",
        "nodes/machine/runner.py",
        "        if not self.idle_allowed:\n            return self._write_outputs(taken)\n",
        "        return self._write_outputs(taken)\n",
        "idle-running",
    ),
    Mutant(
        "nobody is suspected",
        "nodes/machine/detector.py",
        "if self._running_ms - last >= self.suspect_after_ms:",
        "if False:",
    ),
    Mutant(
        "an old stop counts for a new life",
        "nodes/machine/node.py",
        "            case _ if not self._present:\n                pass  # of an earlier life under this name\n",
        "",
    ),
    Mutant(
        "a clock that jumps back stops the node",
        "nodes/machine/node.py",
        "passed_ms = 0 if self._clock_ms is None else max(0, now_ms - self._clock_ms)",
        "passed_ms = 0 if self._clock_ms is None else now_ms - self._clock_ms",
    ),
)


def main() -> int:
    """Run the chosen mutants; 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=300, help="seeds for each mutant")
    parser.add_argument("--base-seed", type=int, default=1)
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if arguments.only in mutant.name]
    if arguments.list:
        print("\n".join(mutant.name for mutant in chosen))
        return 0
    survivors = []
    for mutant in chosen:
        began = time.monotonic()
        found = kill(mutant, arguments.seeds, arguments.base_seed)
        outcome = "SURVIVED" if found is None else "killed"
        print(f"{outcome}  {mutant.name}: {time.monotonic() - began:.0f} s  {found or ''}")
        sys.stdout.flush()
        if found is None:
            survivors.append(mutant.name)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    return int(bool(survivors))


def kill(mutant: Mutant, seeds: int, base_seed: int) -> str | None:
    """What the simulation said against the mutant; None if nothing."""
    with tempfile.TemporaryDirectory(prefix="holon-mutant-") as folder:
        for room in ROOMS:
            shutil.copytree(ROOT / room, Path(folder, room), ignore=shutil.ignore_patterns("__pycache__"))
        target = Path(folder, mutant.file)
        text = target.read_text()
        if text.count(mutant.old) != 1:
            raise SystemExit(f"mutant {mutant.name!r}: its text stands {text.count(mutant.old)} times in {mutant.file}")
        target.write_text(text.replace(mutant.old, mutant.new))
        return _simulate(Path(folder), mutant, seeds, base_seed)


def _simulate(folder: Path, mutant: Mutant, seeds: int, base_seed: int) -> str | None:
    """Chunk by chunk, so that most mutants cost a few seeds only."""
    done, chunk = 0, 10
    while done < seeds:
        chunk = min(chunk, seeds - done)
        options = ["--seeds", str(chunk), "--base-seed", str(base_seed + done), "--json", "--processes", "1"]
        options += ["--case", mutant.case] if mutant.case else []
        ran = subprocess.run(
            [sys.executable, "-m", "nodes.cli", "sim", *options],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        done += chunk
        if ran.returncode == 1:
            failed = json.loads(ran.stdout).get("failed", [])
            return f"{len(failed)} of {chunk} seeds: {failed[0]['problem'].splitlines()[0][:90]}" if failed else "error"
        if ran.returncode != 0:
            raise SystemExit(f"mutant {mutant.name!r}: the simulation did not run: {ran.stderr[-500:]}")
        chunk *= 3
    return None


if __name__ == "__main__":
    sys.exit(main())
