"""Where sentences of pages, docstrings and comments begin and end, and how long they may be."""

from __future__ import annotations

import io
import tokenize
from tokenize import COMMENT

import pytest

from tests.tidy import Source, check
from tests.tidy.sentences import MAX_WORDS, comments, page_sentences


def words(count: int) -> str:
    return " ".join(["word"] * count)


def broken(path: str, text: str) -> list[tuple[str, int]]:
    return [(violation.rule, violation.line) for violation in check(Source(path, text))]


@pytest.mark.parametrize(
    "text",
    [
        f"{words(31)}.\n",
        f"{words(20)}\n{words(11)}.\n",
        f"{words(20)}; {words(11)}.\n",
        f"{words(20)}: {words(11)}.\n",
        f"* {words(20)}\n  {words(11)}\n",
        f"1. {words(31)}\n",
        f"| cell | {words(31)} |\n",
        f"# {words(31)}\n",
        f"> {words(31)}\n",
        f"{words(29)} `code of four words` [a link](there.md).\n",
        f"{words(29)} **bold one**.\n",
    ],
)
def test_sentence_of_more_than_thirty_words_is_found(text: str) -> None:
    assert broken("docs/a.md", text) == [("no_long_sentence", 1)]
    assert broken("CHANGELOG.md", text) == []
    assert broken("wcrdt/a.txt", text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"{words(30)}.\n",
        f"{words(20)}. {words(20)}! {words(20)}? {words(20)}\n",
        f"({words(20)}.) {words(20)}.\n",
        f"{words(20)}\n\n{words(20)}\n",
        f"* {words(20)}\n* {words(20)}\n",
        f"| {words(20)} | {words(20)} |\n|---|---|\n| {words(20)} | {words(20)} |\n",
        f"# {words(20)}\n{words(20)}\n",
        f"```\n{words(40)}\n```\n",
        f"{words(3)}\n\n    {words(40)}\n\n    {words(40)}\n",
        f"{words(29)} `{words(40)}`.\n",
        f"{words(29)} [link](a-long-address/of-{'many-'.join('abc')}parts).\n",
        f"{words(29)} https://example.org/a/b\n",
        f"{words(30)} - + = .\n",
    ],
)
def test_code_tables_lists_and_links_do_not_make_a_sentence_long(text: str) -> None:
    assert broken("docs/a.md", text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f'"""{words(31)}."""\n', 1),
        (f'"""A module.\n\nIt begins. {words(16)}\n{words(15)}.\n"""\n', 3),
        (f'"""A module."""\n\n\ndef _f() -> None:\n    """Short.\n\n    {words(31)}.\n    """\n', 7),
        (f'"""A module."""\n# {words(16)}\n# {words(15)}.\nx = 1\n', 2),
        (f'"""A module."""\nx = 1  # {words(31)}\n', 2),
    ],
)
def test_long_sentence_of_a_docstring_or_comment_is_found(text: str, line: int) -> None:
    assert broken("nodes/a.py", text) == [("no_long_sentence", line)]


@pytest.mark.parametrize(
    "text",
    [
        f'"""A module.\n\n{words(20)}.\n{words(20)}.\n"""\n',
        f'"""A module.\n\nArgs:\n    one: {words(20)}\n\n        {words(40)}\n"""\n',
        f'"""A module."""\n\n\ndef _f() -> None:\n    """Short.\n\n        {words(40)}\n    """\n',
        f'"""A module."""\nx = "{words(31)}"\n',
    ],
)
def test_short_sentences_code_and_texts_of_code_may_be_long(text: str) -> None:
    assert "no_long_sentence" not in {rule for rule, _ in broken("nodes/a.py", text)}


def test_sentence_is_named_by_the_line_that_it_begins_in() -> None:
    lines = ["One begins here", "and ends. Two", "goes on.", "", "* Three", "  is here", "", "    still three"]
    assert [(each.line, each.text) for each in page_sentences(lines)] == [
        (1, "One begins here and ends."),
        (2, "Two goes on."),
        (5, "Three is here"),
        (8, "still three"),
    ]


def test_limit_is_the_one_that_the_house_names() -> None:
    assert MAX_WORDS == 30


@pytest.mark.parametrize(
    "text",
    [
        "It ends. What came before stays.\n",
        "It ends.\nWhoever reads on is told.\n",
        "* **Who writes** is known.\n",
        "| a | Nobody knows |\n",
        "It ends (Nobody waits).\n",
    ],
)
def test_relative_subject_of_a_page_is_found(text: str) -> None:
    assert {rule for rule, _ in broken("docs/design/a.md", text)} == {"no_relative_subject"}


@pytest.mark.parametrize(
    "text",
    ["What is a window?\n", "# What ids promise\n", "It ends. A node knows what came.\n", "```\nWho knows\n```\n"],
)
def test_questions_headings_and_code_of_a_page_may_begin_so(text: str) -> None:
    assert broken("docs/design/a.md", text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"""What is sent last."""\n', 1),
        ('"""A module.\n\nIt ends. Whoever waits goes on.\n"""\n', 3),
        ('"""A module."""\n\n\ndef _f() -> None:\n    """Who leads."""\n', 5),
        ('"""A module."""\nx = 1  # Nobody reads it\n', 2),
        ('"""A module."""\n\nLIMIT = 1\n"""What is sent at once."""\n', 4),
        ('"""A module."""\n# It ends here. What\n# comes goes on.\nx = 1\n', 2),
    ],
)
def test_relative_subject_of_a_docstring_or_comment_is_found(text: str, line: int) -> None:
    assert broken("nodes/a.py", text) == [("no_relative_subject", line)]


@pytest.mark.parametrize(
    "text",
    [
        '"""A node that waits."""\n\n# What is a window? A range of time.\n',
        '"""A module."""\nx = "What is sent last."  # said twice\n',
        '"""A module."""\nx = 1  # it ends. what\ny = 2  # comes\n',
    ],
)
def test_questions_and_texts_of_code_may_begin_so(text: str) -> None:
    assert broken("nodes/a.py", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "# alone\nx = 1  # behind\n",
        "x = '# none'  # one\n",
        'x = "\'#"; y = \'"#\'  # "one"\n',
        '"""A text.\n\n# none\n"""\n# one\n',
        "'''it's # none'''  # it's one\n",
        'x = ("", "# none")  # one\n',
        'x = (""  # one\n     "# none")\n',
        "x = '\\'# none'  # one\n",
        "x = 'of two \\\n# lines'  # one\n",
        'x = r"\\"  # one\n'.replace('r"\\"', 'r"\\\\"'),
        "x = f'{1:#x}'  # one\n",
        'x = """"# none"""  # one\n',
        'x = b"""\\"""# none"""  # one\n',
        "    # within\n".join(["if True:\n", "    pass\n"]),
    ],
)
def test_comments_are_those_of_the_tokenizer(text: str) -> None:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    of_tokens = [(each.start[0], each.line, each.start[1], each.string) for each in tokens if each.type == COMMENT]
    assert of_tokens and list(comments(text)) == [
        (number, not line[:at].strip(), comment) for number, line, at, comment in of_tokens
    ]
