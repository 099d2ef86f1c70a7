"""DeathStar's movie reviews: a review is written in seven calls, and shows on the page of its movie and of its user.

Source: DeathStarBench, as functions by Beldi, and Styx, section 9.1 (9 to 10 calls there). Deviations: rating and page
are one entity, and the request's id makes no call of its own. Pages keep the newest ``NEWEST`` reviews, so that their
state stays small, while counts and sums are of all.
"""

from __future__ import annotations

from typing import Any

import msgspec

from transactional.context import Context
from transactional.operators import Operator, Program
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import BenchWorkload, RequestHistory, Send, WorkloadShape, different
from transactional.workloads.draws import Draws

NEWEST = 10
STARS = 10


class UnknownTitle(Exception):
    """No such user or title."""


class Page(msgspec.Struct):
    """Reviews of a movie or by a user: ``newest`` first."""

    count: int = 0
    stars: int = 0
    newest: list[str] = []


user = Operator("user", partitions=4)
title = Operator("title", partitions=4)
movie_page = Operator("movie_page", partitions=4, state=Page)
user_page = Operator("user_page", partitions=4, state=Page)
review = Operator("review", partitions=4)
compose = Operator("compose", partitions=4)
text = Operator("text", partitions=4)


@user.register
async def register(ctx: Context, number: str) -> None:
    """A user name and its id."""
    ctx.put(number)


title.register(register)


@user.register
async def find(ctx: Context) -> str:
    """The id behind a name."""
    found = ctx.get()
    if found is None:
        raise UnknownTitle(ctx.key)
    return found


title.register(find)


@text.register
async def tidy(ctx: Context, words: str) -> str:
    """The text as it is shown."""
    return " ".join(words.split())


@review.register
async def store(ctx: Context, content: dict[str, Any]) -> None:
    """Keep a review."""
    ctx.put(content)


@review.register
async def read(ctx: Context) -> dict[str, Any] | None:
    """A review."""
    return ctx.get()


@movie_page.register
async def add(ctx: Context, name: str, stars: int) -> None:
    """A review comes onto the page."""
    page: Page = ctx.get(Page())
    ctx.put(Page(page.count + 1, page.stars + stars, [name, *page.newest[: NEWEST - 1]]))


user_page.register(add)


@movie_page.register
async def show(ctx: Context) -> list[Any]:
    """Count, sum of the stars, and the newest reviews whole."""
    page: Page = ctx.get(Page())
    return [page.count, page.stars, [await ctx.call(review, name, read) for name in page.newest]]


user_page.register(show)


@compose.register
async def write(ctx: Context, author: str, film: str, words: str, stars: int) -> str:
    """Write a review; gives its id."""
    name = ctx.uuid()
    author_id = await ctx.call(user, author, find)
    film_id = await ctx.call(title, film, find)
    shown = await ctx.call(text, ctx.key, tidy, [words])
    content = {"user": author_id, "movie": film_id, "text": shown, "stars": stars, "time_ms": ctx.now_ms}
    ctx.call_async(review, name, store, [content])
    ctx.call_async(movie_page, film_id, add, [name, stars])
    ctx.call_async(user_page, author_id, add, [name, stars])
    return name


program = Program("movies", [user, title, movie_page, user_page, review, compose, text], errors=[UnknownTitle])


def load(shape: WorkloadShape) -> list[WireRequest]:
    """As many users as titles."""
    users = [WireRequest(f"load-u{n}", "user", f"user {n}", "register", [f"u{n}"]) for n in range(shape.size)]
    return users + [WireRequest(f"load-m{n}", "title", f"title {n}", "register", [f"m{n}"]) for n in range(shape.size)]


def requests(shape: WorkloadShape, first: int, count: int) -> list[WireRequest]:
    """Nine of ten write, one reads a page; one writer of fifty names an unknown title."""
    draws = Draws(shape.seed, first, count)
    columns = zip(
        draws.below(0, 10),
        draws.below(1, shape.size),
        draws.zipf(2, shape.size, shape.zipf),
        draws.below(3, STARS + 1),
        draws.below(4, 50),
        strict=True,
    )
    made = []
    for n, (kind, who, film, stars, known) in enumerate(columns):
        name = f"{shape.seed}-{first + n}"
        if kind:
            called = f"title {film}" if known else "no such title"
            args = [f"user {who}", called, f"  review  {first + n} ", stars]
            made.append(WireRequest(name, "compose", name, "write", args))
        else:
            made.append(WireRequest(name, "movie_page", f"m{film}", "show"))
    return made


def check(shape: WorkloadShape, history: RequestHistory, send: Send) -> list[str]:
    """Pages count each acknowledged review once and with its stars, and hold the newest whole."""
    pages = {(kind, n): [0, 0] for kind in "um" for n in range(shape.size)}
    written: dict[str, tuple[str, str, str, int]] = {}
    for request, name in history.committed("write"):
        author, film, words, stars = request.args
        numbers = ("u", int(author.split()[1])), ("m", int(film.split()[1]))
        for page in numbers:
            pages[page][0] += 1
            pages[page][1] += stars
        written[name] = f"u{numbers[0][1]}", f"m{numbers[1][1]}", " ".join(words.split()), stars
    wrong = different("how many reviews have ids of their own", len(written), len(history.committed("write")))
    reads = [
        WireRequest(f"show-{kind}{n}", "user_page" if kind == "u" else "movie_page", f"{kind}{n}", "show")
        for kind, n in pages
    ]
    shown = send(reads)
    for (kind, n), (count, stars) in pages.items():
        found = shown[f"show-{kind}{n}"]
        wrong += different(f"count and stars of page {kind}{n}", found[:2], [count, stars])
        wrong += _newest(f"{kind}{n}", count, found[2], set(written.values()))
    return wrong


def _newest(page: str, count: int, reviews: list[Any], written: set[tuple[str, str, str, int]]) -> list[str]:
    wrong = different(f"how many reviews page {page} holds", len(reviews), min(count, NEWEST))
    for each in reviews:
        if each is None or page not in (each["user"], each["movie"]):
            wrong.append(f"page {page} holds {each}")
        elif (each["user"], each["movie"], each["text"], each["stars"]) not in written:
            wrong.append(f"page {page} holds {each}, which nobody wrote")
    return wrong


workload = BenchWorkload(
    name="movies",
    program=program,
    reference="transactional.workloads.movies:program",
    size=1_000,
    counts="users, and as many titles",
    load=load,
    requests=requests,
    check=check,
    expected_aborts=("UnknownTitle",),
)
