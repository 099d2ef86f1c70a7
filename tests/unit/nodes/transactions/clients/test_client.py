"""The contract of clients: ``call`` raises, ``try_call`` returns, and all of it is found in ``holon.client``."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import holon.client
from holon.client import Aborted, CallFailed, TransactionClient
from nodes.log.memory import MemoryLog
from nodes.transactions.clients.client import COUNT_AGAIN_S
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


def test_new_partitions_are_found_by_the_clients_clock(stage: Stage) -> None:
    now_s = [0.0]
    client = TransactionClient(stage.log, clock_s=lambda: now_s[0])
    client.expect(["of another client"])
    before = stage.log.partitions(client.topics.replies)
    stage.log.add_partitions(client.topics.replies, before + 1)
    client.poll()
    assert len(client.positions) == before
    now_s[0] += COUNT_AGAIN_S
    client.poll()
    assert len(client.positions) == before + 1


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


# --- where they are found ---------------------------------------------------------------------------------------------


def test_each_public_name_is_what_it_is_at_home_and_has_its_type_in_the_stub() -> None:
    stub = ast.parse(Path(holon.client.__file__).with_suffix(".pyi").read_text())
    typed = {each.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for each in node.names}
    assert dir(holon.client) == sorted(typed)
    for name, home in typed.items():
        assert home is not None
        assert getattr(holon.client, name) is getattr(import_module(home), name)
    with pytest.raises(AttributeError, match="TransactionClient"):
        holon.client.TransactonClient  # type: ignore[attr-defined]  # noqa: B018
