"""Archives of a JVM's classes: made once, found by the next one, for one Java and one folder of jars."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes.class_archive import KEPT, ClassArchive


@pytest.fixture
def java(tmp_path: Path) -> str:
    (tmp_path / "java").write_text("a program")
    return str(tmp_path / "java")


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "jars").mkdir()
    return tmp_path / "jars"


def archive_of(java: str, jars: Path, folder: Path) -> ClassArchive:
    folder.mkdir(exist_ok=True)
    return ClassArchive(jars.parent / "cache", java, jars, folder)


def test_the_first_process_makes_the_archive_and_the_next_one_loads_it(java: str, jars: Path, tmp_path: Path) -> None:
    first = archive_of(java, jars, tmp_path / "first")
    assert first.option() == f"-XX:ArchiveClassesAtExit={tmp_path / 'first' / 'classes.jsa'}"
    first.own.write_bytes(b"classes")
    first.keep()
    assert not first.own.exists()
    option, _, path = archive_of(java, jars, tmp_path / "next").option().partition("=")
    assert option == "-XX:SharedArchiveFile"
    assert Path(path).read_bytes() == b"classes"


def test_a_process_that_was_killed_leaves_nothing(java: str, jars: Path, tmp_path: Path) -> None:
    archive_of(java, jars, tmp_path / "killed").keep()
    assert archive_of(java, jars, tmp_path / "next").option().startswith("-XX:ArchiveClassesAtExit=")


def test_another_java_and_other_jars_have_archives_of_their_own(java: str, jars: Path, tmp_path: Path) -> None:
    made = archive_of(java, jars, tmp_path / "own")
    made.own.write_bytes(b"classes")
    made.keep()
    os.utime(jars, ns=(1, 1))
    assert archive_of(java, jars, tmp_path / "own").option().startswith("-XX:ArchiveClassesAtExit=")
    Path(java).write_text("another program")
    assert archive_of(java, jars, tmp_path / "own").option().startswith("-XX:ArchiveClassesAtExit=")


def test_the_newest_stay(java: str, jars: Path, tmp_path: Path) -> None:
    for day in range(KEPT + 2):
        os.utime(jars, ns=(day, day))
        made = archive_of(java, jars, tmp_path / "own")
        made.own.write_bytes(b"%d" % day)
        made.keep()
        for path in (tmp_path / "cache").iterdir():
            os.utime(path, ns=(int(path.read_bytes()), int(path.read_bytes())))
    assert sorted(path.read_bytes() for path in (tmp_path / "cache").iterdir()) == [b"2", b"3", b"4"]


def test_a_cache_that_cannot_be_written_costs_time_only(java: str, jars: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    made = archive_of(java, jars, tmp_path / "own")
    made.own.write_bytes(b"classes")
    made.keep()
    assert not made.own.exists()
    assert made.option().startswith("-XX:ArchiveClassesAtExit=")
