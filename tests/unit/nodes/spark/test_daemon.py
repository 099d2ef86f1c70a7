"""The path that Spark's Python workers import from."""

from __future__ import annotations

from pathlib import Path

from nodes.spark.daemon import without_packed_copy


def test_the_packed_copy_is_left_out_where_the_same_pyspark_is_installed(tmp_path: Path) -> None:
    home = tmp_path / "site" / "pyspark"
    (home / "python" / "lib").mkdir(parents=True)
    (home / "__init__.py").touch()
    packed = [str(home / "python" / "lib" / "pyspark.zip"), str(home / "jars" / "spark-core.jar")]
    path = [*packed, "/elsewhere/own.zip", str(tmp_path / "site")]
    assert without_packed_copy(path, str(home)) == path[2:]
    assert without_packed_copy(path, None) == path


def test_a_spark_of_another_folder_keeps_its_copy(tmp_path: Path) -> None:
    """Its pyspark may be of another version than the one that is installed."""
    for place in ("site", "spark"):
        (tmp_path / place / "pyspark").mkdir(parents=True)
        (tmp_path / place / "pyspark" / "__init__.py").touch()
    home = tmp_path / "spark" / "pyspark"
    path = [str(home / "python" / "lib" / "pyspark.zip"), str(tmp_path / "site")]
    assert without_packed_copy(path, str(home)) == path
    assert without_packed_copy(path[:1], str(home)) == path[:1]
