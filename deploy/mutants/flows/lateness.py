"""Bugs in windows that take rows longer than others of the same job."""

from __future__ import annotations

from deploy.mutants.model import Mutant

SHARED = "holon/dataflow/late/lateness.py"
HELD = "wcrdt/windows/held_longer.py"
FLOWS = ("tests/unit/holon/dataflow/test_lateness.py",)
STATES = ("tests/unit/holon/program/test_extra_lateness.py",)
LAW = ("tests/laws/test_lateness_of_windows.py",)

OWN_LATENESS = (
    Mutant(
        "all windows wait as long as the longest lateness",
        SHARED,
        "least_ms = min(lateness.values(), default=flow_ms)",
        "least_ms = max(lateness.values(), default=flow_ms)",
        tests=FLOWS,
    ),
    Mutant(
        "windows of windows do not wait for those before them",
        SHARED,
        "return 0 if step.of is None else step.of.extra_lateness_ms",
        "return 0",
        tests=FLOWS,
    ),
    Mutant(
        "windows behind a union wait for its first stream alone",
        SHARED,
        "beside = step.others if isinstance(step, United) else ()",
        "beside = ()",
        tests=FLOWS,
    ),
    Mutant(
        "handlers see windows as they are held",
        "holon/tracks/window_track.py",
        "        window = shown(self.scope.windowed[handler.state].windows, window)\n",
        "",
        tests=STATES,
    ),
    Mutant(
        "a safe read is of the window as it is declared, which others have left",
        "holon/program/handles.py",
        "return window if self._later is None else self._later.held(window)",
        "return window",
        tests=STATES,
    ),
    Mutant(
        "windows driven by data put rows into slices that are open longer than theirs",
        "holon/program/scope.py",
        "lateness_ms = self.replica.lateness_ms + held_longer_ms(self.windowed[name].windows)",
        "lateness_ms = self.replica.lateness_ms",
        tests=LAW,
    ),
    Mutant(
        "the window of all time ends later than time",
        HELD,
        "if window.end_ms >= END_OF_TIME_MS:",
        "if window.end_ms > END_OF_TIME_MS:",
        tests=LAW,
    ),
    Mutant(
        "panes that are held longer are counted as if they were not",
        "wcrdt/windows/panes.py",
        "        return (window.start_ms - self._later_ms) // self._slide_ms",
        "        return window.start_ms // self._slide_ms",
        tests=LAW,
    ),
    Mutant(
        "panes that are held longer are numbered by other times",
        "wcrdt/windows/panes.py",
        "start_ms = number * self._slide_ms + self._later_ms",
        "start_ms = number * self._slide_ms",
        tests=LAW,
    ),
    Mutant(
        "folders are named by times at which late windows were complete",
        "holon/job.py",
        "if longer and files.needs_time and files.time is None:",
        "if len(longer) > 9 and files.needs_time and files.time is None:",
        tests=FLOWS,
    ),
)
