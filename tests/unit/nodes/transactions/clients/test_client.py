"""What clients promise: ``call`` raises, ``try_call`` returns, and all of it is found in ``holon.client``."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path

import pytest

import holon.client
from holon.client import Aborted, AsyncTransactionClient, CallFailed, TransactionClient
from nodes.log.memory import MemoryLog
from tests.unit.txn_stage import Stage
from transactional import Context, Operator, Program


class OutOfStock(Exception):
    """There is less than was asked for."""

    def __init__(self, item: str, left: int) -> None:
        super().__init__(f"{item}: {left} left")
        self.item, self.left = item, left


SHELF = Operator("shelf", partitions=2)


@SHELF.register
async def put(ctx: Context, count: int) -> int:
    ctx.put(ctx.get(0) + count)
    return ctx.get(0)


@SHELF.register
async def take(ctx: Context, count: int) -> int:
    if ctx.get(0) < count:
        ctx.put(-1)
        raise OutOfStock(ctx.key, ctx.get(0))
    return ctx.get(0) - count


class LastingLog(MemoryLog):
    """Clients that end leave it open."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def stage() -> Stage:
    made = Stage(Program("shop", [SHELF], errors=[OutOfStock]), new_log=LastingLog)
    made.start("a")
    return made


def test_call_gives_the_result_or_raises_what_the_function_has_raised(stage: Stage) -> None:
    client = TransactionClient(stage.log, errors=[OutOfStock])
    assert client.call("shelf", "pen", "put", [3]) == client.try_call("shelf", "pen", "put", [0]) == 3
    with pytest.raises(OutOfStock) as raised:
        client.call("shelf", "ink", "take", [1])
    assert (raised.value.item, raised.value.left) == ("ink", -1)
    assert client.call("shelf", "ink", "put", [0]) == 0, "what was aborted has no effect"


def test_what_the_client_does_not_know_is_call_failed_with_the_reason(stage: Stage) -> None:
    client = TransactionClient(stage.log)
    for asked, kind in (("take", "OutOfStock"), ("tke", "UnknownFunction")):
        with pytest.raises(CallFailed) as raised:
            client.call("shelf", "ink", asked, [1])
        assert raised.value.aborted.kind == kind and kind in str(raised.value)


def test_try_call_gives_aborted(stage: Stage) -> None:
    outcome = TransactionClient(stage.log, errors=[OutOfStock]).try_call("shelf", "ink", "take", [1])
    assert isinstance(outcome, Aborted) and outcome.kind == "OutOfStock"
    assert isinstance(outcome.as_error([OutOfStock]), OutOfStock)


def through_asyncio(stage: Stage, talk: Callable[[AsyncTransactionClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with AsyncTransactionClient(lambda: stage.log, "shop", errors=[OutOfStock]) as client:
            await talk(client)

    asyncio.run(run())


def test_the_asyncio_client_does_the_same(stage: Stage) -> None:
    async def talk(client: AsyncTransactionClient) -> None:
        assert await client.call("shelf", "cup", "put", [2]) == await client.try_call("shelf", "cup", "put", [0]) == 2
        with pytest.raises(OutOfStock, match="left"):
            await client.call("shelf", "ink", "take", [1])
        with pytest.raises(CallFailed, match="UnknownFunction"):
            await client.call("shelf", "ink", "tke", [1])
        outcome = await client.try_call("shelf", "ink", "take", [1])
        assert isinstance(outcome, Aborted) and outcome.kind == "OutOfStock"

    through_asyncio(stage, talk)


# --- where they are found ---------------------------------------------------------------------------------------------


def test_each_public_name_is_what_it_is_at_home_and_has_its_type_in_the_stub() -> None:
    assert dir(holon.client) == sorted(holon.client._HOMES)
    stub = ast.parse(Path(holon.client.__file__).with_suffix(".pyi").read_text())
    typed = {each.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for each in node.names}
    assert typed == holon.client._HOMES
    for name, home in holon.client._HOMES.items():
        assert getattr(holon.client, name) is getattr(import_module(home), name)
    with pytest.raises(AttributeError, match="TransactionClient"):
        holon.client.TransactonClient  # type: ignore[attr-defined]  # noqa: B018


def test_nothing_of_the_runtime_is_imported_before_a_client_is_asked_for() -> None:
    code = (
        "import sys, holon, holon.client\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('nodes', 'transactional')]\n"
        "from holon.client import TransactionClient\n"
        "assert 'nodes.transactions.client' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
