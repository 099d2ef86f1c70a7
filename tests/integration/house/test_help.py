"""The interpreter's help explains what users call."""

from __future__ import annotations

import subprocess

from tests.tidy.source import ROOT


def test_help_explains_what_users_call() -> None:
    listing = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    explained = {line.split()[1] for line in listing.stdout.splitlines()}
    assert explained >= set("setup demo test check sim mutants bench nightly clean distclean lock".split())
