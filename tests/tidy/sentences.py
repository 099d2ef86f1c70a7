"""Sentences of pages, docstrings and comments: how long they are, and what they begin with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from tests.tidy.source import Source, Violation

MAX_WORDS = 30
HISTORY = "CHANGELOG.md"  # says what changed, in the words of its day
# Docstrings there are not mended yet.
_LONG_STILL = ("holon/columnar", "holon/formats", "nodes/log/kafka/direct", "nodes/sim")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"#{1,6} ")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.) +")
_TABLE_RULE = re.compile(r"\|?[\s:|-]+\|?$")
_CELL_EDGE = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_ADDRESS = re.compile(r"https?://[^\s)]+")
_TAG = re.compile(r"</?[A-Za-z][^>]*>")
_END = re.compile(r"[.!?][)\"'*_]*\s+")
_WORD = re.compile(r"\S*[^\W_]\S*")
_RELATIVE = re.compile(r"(?:^|[.:;] |\()[*\"]*((?:Who|Whoever|What|Nobody) [a-z]+)\b")

# Texts of Python 3.11 as a whole, so that no sign in one is taken for a comment. The tokenizer costs ten times as much.
_TEXT_OR_COMMENT = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*"""|"(?!"")(?:[^"\\\n]|\\.)*"'''
    r"""|'''(?:[^'\\]|\\.|'(?!''))*'''|'(?!'')(?:[^'\\\n]|\\.)*'|#[^\n]*""",
    re.DOTALL,
)

_Block = list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence without its markup, and the line that it begins in."""

    line: int
    text: str

    @property
    def is_long(self) -> bool:
        """Whether it has too many words, which are no more than what blanks part."""
        return len(self.text.split()) > MAX_WORDS < self.words

    @property
    def words(self) -> int:
        return len(_WORD.findall(self.text))


def no_long_sentence(source: Source) -> Iterator[Violation]:
    """A sentence of a page, docstring or comment has at most 30 words. Cells, headings and items are sentences too."""
    if source.is_python:
        sentences = () if source.within(_LONG_STILL) else code_sentences(source)
    elif source.path.endswith(".md") and source.path != HISTORY:
        sentences = page_sentences(source.lines)
    else:
        return
    for sentence in sentences:
        if sentence.is_long:
            why = f"{sentence.words} words, {MAX_WORDS} allowed: {sentence.text[:60]!r}"
            yield Violation(source.path, sentence.line, "no_long_sentence", why)


def no_relative_subject(source: Source) -> Iterator[Violation]:
    """A sentence of a page, docstring or comment has a noun as its subject. Headings and questions may begin so."""
    if source.is_python:
        sentences = code_sentences(source)
    elif source.path.endswith(".md") and source.path != HISTORY:
        headings = (number for number, line in enumerate(source.lines, start=1) if _HEADING.match(line))
        titled = set(headings)
        sentences = (each for each in page_sentences(source.lines) if each.line not in titled)
    else:
        return
    for sentence in sentences:
        found = _RELATIVE.search(sentence.text)
        if found and "?" not in sentence.text[found.end() :]:
            why = f"{found[1]!r}: name the subject of the sentence"
            yield Violation(source.path, sentence.line, "no_relative_subject", why)


def page_sentences(lines: list[str]) -> Iterator[Sentence]:
    """The sentences of a page in Markdown. Code blocks have none."""
    for block in _page_blocks(lines):
        yield from _sentences(block)


@lru_cache(maxsize=1)
def code_sentences(source: Source) -> tuple[Sentence, ...]:
    """The sentences of docstrings and comments of a Python file; two rules in a row ask for them."""
    blocks = [*_docstring_blocks(source.nodes), *_comment_blocks(source.text)]
    return tuple(chain.from_iterable(map(_sentences, blocks)))


def _page_blocks(lines: list[str], first: int = 1) -> Iterator[_Block]:
    """Runs of lines, numbered from ``first`` on, that no sentence crosses: paragraphs, items, headings and cells."""
    block: _Block = []
    fenced = after_blank = in_list = False
    for number, line in enumerate(lines, start=first):
        fence = bool(_FENCE.match(line))
        fenced ^= fence
        code = fenced or fence or (line.startswith("    ") and after_blank and not in_list)
        text = line.strip().removeprefix("> ")
        alone = text.startswith("|") or bool(_HEADING.match(text))
        if block and (code or alone or not text or _ITEM.match(line)):
            yield block
            block = []
        if text and not code:
            if not alone:
                block.append((number, _ITEM.sub("", line)))
            elif not _TABLE_RULE.match(text):
                yield from ([(number, cell)] for cell in _CELL_EDGE.split(text))
        in_list = not code and (bool(_ITEM.match(line)) or (in_list and (not text or line.startswith(" "))))
        after_blank = not text or (after_blank and code)
    if block:
        yield block


def _docstring_blocks(nodes: Iterable[ast.AST]) -> Iterator[_Block]:
    """Texts that stand alone: docstrings, also those behind an attribute."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines = _dedented(node.value.value.split("\n"), node.col_offset)
            yield from _page_blocks(lines, node.lineno)


def _dedented(lines: list[str], margin: int) -> list[str]:
    """Without the docstring's own margin, so that what stands in further is code, as on a page."""
    return [lines[0].strip(), *(line[min(margin, len(line) - len(line.lstrip())) :].rstrip() for line in lines[1:])]


def comments(text: str) -> Iterator[tuple[int, bool, str]]:
    """Line, whether nothing stands in front of it, and text of each comment of a Python file that parses."""
    line, counted = 1, 0
    for found in _TEXT_OR_COMMENT.finditer(text):
        if found.group().startswith("#"):
            line += text.count("\n", counted, found.start())
            counted = found.start()
            begin = text.rfind("\n", 0, counted) + 1
            yield line, not text[begin:counted].strip(), found.group()


def _comment_blocks(text: str) -> Iterator[_Block]:
    block: _Block = []
    for line, alone, comment in comments(text):
        if block and not (alone and block[-1][0] == line - 1):
            yield block
            block = []
        block.append((line, comment.lstrip("#! ")))
    if block:
        yield block


def _sentences(block: _Block) -> Iterator[Sentence]:
    """The block's sentences. Code within a line is one word, and a link is its text."""
    text, starts = "", list[tuple[int, int]]()
    for number, line in block:
        starts.append((len(text), number))
        text += line.strip() + " "
    plain, begin = _plain(text), 0
    for end in [*(found.end() for found in _END.finditer(plain)), len(plain)]:
        words = plain[begin:end].replace("\0", "").strip()
        if words:
            yield Sentence(max(number for at, number in starts if at <= begin), words)
        begin = end


def _plain(text: str) -> str:
    """The text without markup and as long as before: NUL stands for each character that is taken away."""

    def blank(found: re.Match[str]) -> str:
        return "\0" * len(found.group())

    def as_word(found: re.Match[str]) -> str:
        return "c" + "\0" * (len(found.group()) - 1)

    def as_text(found: re.Match[str]) -> str:
        return "\0" + found[1] + "\0" * (len(found.group()) - 1 - len(found[1]))

    text = _CODE.sub(as_word, text)
    text = _IMAGE.sub(blank, text)
    text = _LINK.sub(as_text, text)
    text = _ADDRESS.sub(as_word, text)
    return _TAG.sub(blank, text)
