"""A mutant: one planted bug, and the tests that are aimed at it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class DoesNotApply(Exception):
    """The text that a mutant replaces is not there any more, or not once."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """``old`` must be exactly once in ``file``.

    Args: ``tests`` are pytest's names of files, classes or functions, as few and quick as find it. ``case``: the
    simulated job that shows it, where no such test does ("" for a drawn one, None: the simulation is not run).
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    case: str | None = None

    def applied(self, root: Path = ROOT) -> str:
        """The text of the file with the bug in it; raises ``DoesNotApply``."""
        path = root / self.file
        if not path.exists():
            raise DoesNotApply(f"mutant {self.name!r}: there is no {self.file} any more")
        text = path.read_text()
        if text.count(self.old) != 1:
            raise DoesNotApply(
                f"mutant {self.name!r}: its text is {text.count(self.old)} times in {self.file}; bring it up to date"
            )
        return text.replace(self.old, self.new)
