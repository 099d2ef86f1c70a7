"""The examples of ``docs/lattices.md`` run as they stand."""

import re
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "lattices.md"


@pytest.mark.slow
def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    examples = re.findall(r"(?s)```python\n(.*?)```", PAGE.read_text())
    assert len(examples) == 2
    for number, example in enumerate(examples):
        script = tmp_path / f"example_{number}.py"
        script.write_text(example)
        runpy.run_path(str(script))
