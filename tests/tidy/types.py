"""`python -m tests.tidy.types`: pyright over the files whose findings can have changed since they had none.

A file's findings follow from its own text, from all that it imports, directly or not, from pyright's settings and from
the locked libraries. So a file is left out if none of these has changed since it passed. Continuous integration runs
pyright over all files.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.tidy.house import imported, module_of
from tests.tidy.passed import Passed, digest
from tests.tidy.source import ROOT, Source, tracked_sources

SETTINGS = ("pyproject.toml", "requirements.lock")


def digests(sources: Iterable[Source]) -> dict[str, str]:
    """Of each file that pyright checks, over its text and the texts of all that it imports."""
    known = {source.path: source for source in sources}
    settings = digest(*(known[name].text for name in SETTINGS if name in known))
    pyright = tomllib.loads(known[SETTINGS[0]].text)["tool"]["pyright"]
    checked, left_out = tuple(pyright["include"]), tuple(pyright.get("exclude", ()))
    files = {module_of(source.path): source for source in known.values() if source.is_python and source.within(checked)}
    direct = {module: imported(source, files) | _packages(module, files) for module, source in files.items()}
    texts = {module: digest(source.text) for module, source in files.items()}
    return {
        source.path: digest(settings, *(f"{each} {texts[each]}" for each in sorted(reached(module, direct))))
        for module, source in files.items()
        if not source.within(left_out)
    }


def _packages(module: str, files: Mapping[str, Source]) -> set[str]:
    """A module's packages are imported before it."""
    parts = module.split(".")
    return {".".join(parts[:size]) for size in range(1, len(parts))} & files.keys()


def reached(module: str, direct: Mapping[str, Iterable[str]]) -> set[str]:
    """It, and all modules that it imports, directly or not."""
    found, waiting = {module}, [module]
    while waiting:
        for other in direct[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def main() -> int:
    """Check what has changed; pyright's exit code."""
    found = digests(tracked_sources())
    passed = Passed("types")
    changed = passed.changed(found)
    if not changed:
        print(f"pyright: {len(found)} files, none has changed since it passed")
        return 0
    print(f"pyright: {len(changed)} of {len(found)} files", flush=True)
    code = subprocess.run([Path(sys.executable).with_name("pyright"), *changed], cwd=ROOT, check=False).returncode
    passed.keep(found, changed if code else ())
    return code


if __name__ == "__main__":
    sys.exit(main())
