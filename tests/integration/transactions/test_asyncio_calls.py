"""Calls through asyncio: aborts, ids, values; what a client imports."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest

from holon.client import Aborted, AsyncTransactionClient, CallFailed
from tests.unit.nodes.transactions.clients.test_client import SHELF, LastingLog, OutOfStock
from tests.unit.txn_stage import Stage
from transactional import Program


@pytest.fixture(scope="module")
def stage() -> Stage:
    made = Stage(Program("shop", [SHELF], errors=[OutOfStock]), new_log=LastingLog)
    made.start("a")
    return made


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


def test_nothing_of_the_runtime_is_imported_before_a_client_is_asked_for() -> None:
    code = (
        "import sys, holon, holon.client\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('nodes', 'transactional')]\n"
        "from holon.client import TransactionClient\n"
        "assert 'nodes.transactions.clients.client' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
