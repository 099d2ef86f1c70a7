"""The Python blocks of README and of the pages, with the code around them that their pages take for granted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Around:
    """``before`` and ``after`` complete a block. ``typed``: why it is not run, but checked by pyright.

    ``proposal``: it shows an interface that does not exist, so it is parsed alone.
    """

    before: str = ""
    after: str = ""
    typed: str = ""
    proposal: bool = False


class Block(NamedTuple):
    """A block of a page; ``line`` is that of its fence."""

    page: str
    line: int
    code: str

    @property
    def first(self) -> str:
        """The line that names it in ``AROUND``."""
        return self.code.splitlines()[0].strip()

    @property
    def around(self) -> Around:
        return AROUND.get((self.page, self.first), Around())

    @property
    def program(self) -> str:
        """The block as a whole program."""
        return f"{self.around.before}{self.code}\n{self.around.after}"

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> list[Block]:
    """All blocks, page by page."""
    pages = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
    return [block for page in pages for block in blocks_of(page, (ROOT / page).read_text())]


def blocks_of(page: str, text: str) -> list[Block]:
    """The blocks of one page."""
    fences = re.finditer(r"(?ms)^```python\n(.*?)^```$", text)
    return [Block(page, text.count("\n", 0, fence.start()) + 1, fence[1]) for fence in fences]


_HOLON = """\
from typing import Annotated, Any
import msgspec
from holon import *
from holon import Json, Source
from holon.testing import JobTestDriver, run_job
from wcrdt import GCounter

class Bid(msgspec.Struct):
    ts: int

class Event(msgspec.Struct):
    ts: int
    id: int

source = Source("bids", Json(Bid), timestamp=lambda bid: bid.ts)
given = [[{"ts": 1}, {"ts": 2}], [{"ts": 3}]]
"""
_RUN_QUERY1 = """
job = Job("query1", source, Query1, output="shares")
assert sorted(row[-2:] for row in run_job(job, given)) == [[1, 3], [2, 3]]
"""
_FLOW = """
import msgspec
from holon import Json
from holon.dataflow import Flow, Sliding

class Bid(msgspec.Struct):
    at: int
    auction: int
    price: int
    channel: str

class Hot(msgspec.Struct):
    auction: int
    num: int
    price: int
    end_ms: int

"""
_RUN_FLOW = """
rows = flow.collect({"bids": [Bid(1, 7, 5, "web"), Bid(2, 7, 9, "app"), Bid(3, 8, 9, "tv")]})
assert rows[0] == {"auction": 7, "num": 2, "price": 9, "end_ms": 2000} and len(rows) == 5
"""
_BANK = """
import msgspec
from transactional import Context, Operator, Program, Serial

class InsufficientFunds(Exception):
    pass

class Account(msgspec.Struct):
    balance: int = 0

"""
_SERVED = "it needs nodes that run the program"
_BROKER = "it needs a broker"
_PROPOSAL = Around(proposal=True)
_DESIGN = "docs/design/procedural-api.md"

_SIGNALS = (
    "import msgspec\nfrom holon import Json\nfrom holon.dataflow import Between, Flow\n\n"
    "class Signal(msgspec.Struct):\n    at: int\n    machine: str\n    on: bool = False\n    off: bool = False\n"
    "    degrees: int = 0\n\n"
    'flow = Flow("runs")\nsignals = flow.source("signals", Json(Signal), time=lambda s: s.at)\n'
)

AROUND: dict[tuple[str, str], Around] = {
    ("README.md", "class Query1(ProcessingFunction[Bid]):"): Around(
        f"{_HOLON}from examples.query1 import Share\n",
        """
shares = [(share["local"], share["total"]) for share in run_job(job, given)]
assert sorted(shares) == [(1, 3), (2, 3)]
""",
    ),
    ("README.md", 'account = Operator("account", partitions=4, state=Account)'): Around(
        _BANK,
        """
@account.register
async def deposit(ctx: Context, amount: int) -> int:
    ctx.put(Account(ctx.get(Account()).balance + amount))
    return 0

Program("bank", [account], errors=[InsufficientFunds])
""",
    ),
    ("docs/cli.md", "import json"): Around(
        """
from nodes.log import open_log
with open_log("./holon-log") as log:
    log.create_topic("q7-output", partitions=1)
"""
    ),
    ("docs/design/dataflow.md", 'flow = Flow("hot-items")'): Around(_FLOW, _RUN_FLOW),
    (_DESIGN, "class Query1(ProcessingFunction[Bid]):"): Around(_HOLON, _RUN_QUERY1),
    (_DESIGN, 'total = WCRDT(GCounter(), Tumbling.of(seconds=10), name="total")'): Around(
        _HOLON, "\nassert sorted(row[-2:] for row in run_job(job, given)) == [[1, 3], [2, 3]]\n"
    ),
    (_DESIGN, "async def query1(events: Events[Bid], ctx: Context) -> None:"): _PROPOSAL,
    (_DESIGN, 'app = App("query1", source, output="shares")'): _PROPOSAL,
    (_DESIGN, "async for sale in events:"): _PROPOSAL,
    (_DESIGN, 'seen = Local[dict[str, int]]({}, name="seen")'): Around(
        _HOLON.replace("id: int", "id: str"),
        """
source = Source("events", Json(Event), timestamp=lambda event: event.ts)
job = Job("dedupe", source, process, states=[seen], output="firsts")
assert len(run_job(job, [[{"ts": 1, "id": "a"}, {"ts": 2, "id": "a"}]])) == 1
""",
    ),
    ("docs/kafka.md", "from nodes.log import open_log"): Around(typed=_BROKER),
    ("docs/kafka.md", "from confluent_kafka import Consumer, TopicPartition"): Around(
        "# pyright: reportArgumentType=false, reportOptionalMemberAccess=false\n",  # the client's values may be None
        typed=_BROKER,
    ),
    ("docs/log.md", "from pathlib import Path"): Around(
        """
from nodes.log import open_log
with open_log("embedded:data/log") as log:
    log.create_topic("bids", partitions=1)
    log.append("bids", 0, [b"one"])
"""
    ),
    ("docs/nexmark.md", "from nexmark.loading import Stream, load  # in this process"): Around(
        "from nexmark.generator import GeneratorConfig\n", typed="it takes minutes"
    ),
    ("docs/nexmark.md", "from nodes.spark.session import spark_session"): Around(typed="it reads that stream"),
    ("docs/programming.md", "class Query1(ProcessingFunction[Bid]):"): Around(_HOLON, _RUN_QUERY1),
    ("docs/programming.md", 'total = WCRDT(GCounter(), Tumbling.of(seconds=10), name="total")'): Around(
        _HOLON, "\nassert run_job(job, given) == [[0, 3], [0, 3]]\n"
    ),
    ("docs/files.md", "from holon import Json"): Around(
        "import msgspec\n\nclass Sale(msgspec.Struct):\n    at: int\n    country: str\n    cents: int\n\n"
        "class Total(msgspec.Struct):\n    country: str\n    end_ms: int\n    cents: int\n\n",
        'assert flow.collect({"sales": [Sale(1, "de", 5)]}) == [{"country": "de", "end_ms": 3_600_000, "cents": 5}]\n',
    ),
    ("docs/programming.md", "sources = ["): Around(
        _HOLON
        + "class Click(msgspec.Struct):\n    at_ms: int\n\nclass Order(msgspec.Struct):\n    second: float\n\n"
        "def count_by_topic(event, ctx):\n    ctx.emit([ctx.topic, ctx.timestamp_ms])\n\n",
        'assert run_job(job, {"orders": [{"second": 1.5}]}) == [["orders", 1500]]\n',
    ),
    ("docs/programming.md", "from holon.dataflow import Flow, Sliding"): Around(_FLOW, _RUN_FLOW),
    ("docs/programming.md", 'visits = clicks.key_by(lambda c: c.user).window(Session("30m", slice="1m"))'): Around(
        "from examples.sessions import Click\nfrom holon import Json, Session\nfrom holon.dataflow import Flow\n"
        'flow = Flow("visits")\nclicks = flow.source("clicks", Json(Click), time=lambda c: c.ts)\n',
        'assert flow.collect({"clicks": [Click(5, "ann", "home")]}) == [["ann", 5, 1_800_005, 1]]\n',
    ),
    ("docs/programming.md", "runs = signals.key_by(lambda s: s.machine).window("): Around(
        _SIGNALS,
        'ons = [Signal(at, "press", at == 5, at == 9) for at in (5, 7, 9, 11)]\n'
        'assert flow.collect({"signals": ons}) == [["press", 5, 10, 3, False]]\n',
    ),
    ("docs/programming.md", "from holon import Change"): Around(
        "",
        _SIGNALS
        + "signals.window(Hot()).agg(lambda g: (g.window.start_ms, g.count())).sink('hot')\n"
        + 'degrees = [Signal(at, "press", degrees=70 + at) for at in (5, 11, 19)]\n'
        'assert flow.collect({"signals": degrees}) == [[11, 2]]\n',
    ),
    ("docs/programming.md", "by_user = clicks.key_by(lambda c: c.user)"): Around(
        "import msgspec\nfrom examples.sessions import Click\nfrom holon import Json, Tumbling\n"
        "from holon.dataflow import Flow\n\nclass Total(msgspec.Struct):\n"
        "    user: str\n    end_ms: int\n    clicks: int\n    final: bool\n\n"
        'flow = Flow("totals")\nclicks = flow.source("clicks", Json(Click), time=lambda c: c.ts)\n',
        'rows = flow.collect({"clicks": [Click(5, "ann", "home"), Click(20_000, "bob", "home")]})\n'
        'assert [(row["user"], row["final"]) for row in rows[:2]] == [("ann", False), ("bob", False)]\n'
        "assert len(rows) == 4\n",
    ),
    ("docs/programming.md", "accounts = Local[dict[int, Account]]({})"): Around(
        f"{_HOLON}class Account(msgspec.Struct):\n    balance: int\n\nclass Accounts(ProcessingFunction[Event]):\n",
        "    def process(self, event: Event, ctx: Context) -> None:\n"
        "        self.accounts.value[event.id] = Account(event.ts)\n"
        'source = Source("events", Json(Event), timestamp=lambda event: event.ts)\n'
        'assert run_job(Job("accounts", source, Accounts, output="out"), [[{"ts": 1, "id": 1}]]) == []\n',
    ),
    ("docs/programming.md", "class Order(msgspec.Struct):"): Around(
        f"{_HOLON}from holon import Header, LogTime, RecordKey, Tombstone\n",
        """
def emit(order: Order, ctx: Context) -> None:
    ctx.emit([order.user, order.trace, order.gone])

test = JobTestDriver(Job("orders", Source("orders", Json(Order), timestamp=lambda o: o.at_ms), emit, output="out"))
test.feed(0, {"price": 3}, key="ann", headers={"trace": "t1"})
test.feed_tombstone(0, key="bob")
assert test.outputs() == [["ann", "t1", False], ["bob", None, True]]
""",
    ),
    ("docs/programming.md", "test = JobTestDriver(job, partitions=2)"): Around(
        f"""{_HOLON}
class Count(ProcessingFunction[Bid]):
    total = WCRDT(GCounter(), Tumbling.of(seconds=10))

    def process(self, bid: Bid, ctx: Context) -> None:
        self.total.insert(1, bid.ts)

    @on_window(total, scope="global")
    async def share(self, window: Window, ctx: Context) -> None:
        ctx.emit([window.start_ms, await self.total.window_value(window)])

job = Job("counts", source, Count, output="counts")
"""
    ),
    ("docs/programming.md", "def test_top_items_survives_faults(holon_sim):"): Around(
        "from examples.top_items import job as flow\n",
        """
def simulated(found, lines, seeds):
    assert (found, lines) == (flow, "examples/items.jsonl")

test_top_items_survives_faults(simulated)
""",
    ),
    ("docs/transactions.md", "from transactional import Context, Operator, Program"): Around(
        _BANK,
        """
@account.register
async def deposit(ctx: Context, amount: int) -> int:
    ctx.put(ctx.get(0) + amount)
    return ctx.get(0)
""",
    ),
    ("docs/transactions.md", "class Item(Entity, partitions=4):"): Around(
        "from transactional import Entity, Program\n\nclass OutOfStock(Exception):\n    pass\n\n"
    ),
    ("docs/transactions.md", "def charge(key: str, card: str, cents: int) -> str:"): Around(
        f"""{_BANK}
class Paid(msgspec.Struct):
    receipt: str
    cents: int = 0

payments: Any = None
order = Operator("order", partitions=4, state=Paid)
""".replace("import msgspec\n", "from typing import Any\nimport msgspec\n", 1)
    ),
    ("docs/transactions.md", "from holon.client import CallFailed, TransactionClient, open_log"): Around(
        _BANK, typed=_SERVED
    ),
    ("docs/transactions.md", "from holon.client import AsyncTransactionClient, open_log"): Around(
        "async def main() -> None:\n", typed=_SERVED
    ),
    ("docs/transactions.md", 'account.bind("payments", deposit, key=lambda record: record["to"], '
     'arguments=lambda record: [record["amount"]])'): Around("from examples.bank import account, deposit\n"),
}  # fmt: skip
"""By page and first line of a block; the others run as they are."""
