"""The examples of ``docs/lattices.md`` run as they stand."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "lattices.md"


def test_the_examples_of_the_page_run():
    examples = re.findall(r"(?s)```python\n(.*?)```", PAGE.read_text())
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {"__name__": "page"})
