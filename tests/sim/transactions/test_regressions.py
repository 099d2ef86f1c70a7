"""Mistakes that a system of this kind has made, as scenarios: none of them may come back here."""

from __future__ import annotations

from tests.integration.txn_replay import Replay
from tests.unit.txn_stage import Stage
from transactional import Context, Operator, Program
from transactional import events as e
from transactional.epochs.messages import reply_message
from transactional.node import TransactionNode
from transactional.requests.requests import WireRequest, request_record
from transactional.state.partition import AppendCalls, AppendEpochs, AppendReply
from transactional.state.snapshots import LedgerState

FAR = 1 << 33


def make_program() -> Program:
    """Registers that point to others."""
    it = Operator("it", partitions=3)

    @it.register
    async def swap(ctx: Context, other: str) -> list[int]:
        mine, theirs = ctx.get(0), await ctx.call(it, other, read)
        ctx.put(theirs)
        await ctx.call(it, other, write, [mine + 1])
        return [mine, theirs]

    @it.register
    async def read(ctx: Context) -> int:
        return ctx.get(0)

    @it.register
    async def write(ctx: Context, value: int) -> None:
        ctx.put(value)

    @it.register
    async def follow(ctx: Context) -> int:
        at = ctx.get(0) % 7
        await ctx.call(it, f"k{at}", bump)
        return at

    @it.register
    async def bump(ctx: Context) -> None:
        ctx.put(ctx.get(0) + 1)

    return Program("scenarios", [it])


def run(stage: Stage, requests: list[WireRequest]) -> None:
    """All at once, until all are answered."""
    stage.client.send_all(requests)
    for _ in range(2_000):
        if all(each.id in stage.client.answered for each in requests):
            return
        stage.client.receive(0.1)
    raise AssertionError("some requests were not answered")


def staged() -> Stage:
    stage = Stage(make_program())
    stage.start("one"), stage.start("other")
    stage.turn(200)
    return stage


def test_transactions_that_touch_the_same_keys_in_opposite_order_all_end() -> None:
    stage = staged()
    keys = ["k0", "k1", "k2"]
    pairs = [(keys[i % 3], keys[(i + 1 + i % 2) % 3]) for i in range(60)]
    run(stage, [WireRequest(f"r{i}", "it", one, "swap", [other]) for i, (one, other) in enumerate(pairs)])
    assert Replay(stage.log, stage.program).check().reruns > 0


def test_transactions_whose_keys_change_when_they_run_again_see_what_they_should() -> None:
    stage = staged()
    requests = []
    for i in range(60):
        requests.append(WireRequest(f"b{i}", "it", f"k{i % 3}", "bump"))
        requests.append(WireRequest(f"f{i}", "it", f"k{(i + 1) % 3}", "follow"))
    run(stage, requests)
    assert Replay(stage.log, stage.program).check().reruns > 0


def test_replies_are_read_once_after_a_node_has_gone() -> None:
    stage = staged()
    run(stage, [WireRequest(f"a{i}", "it", f"k{i % 5}", "bump") for i in range(20)])
    late = [WireRequest(f"b{i}", "it", f"k{i % 5}", "bump") for i in range(20)]
    stage.client.send_all(late)
    stage.turn(2)
    del stage.nodes["one"]
    run(stage, [WireRequest("last", "it", "k0", "read")])
    for _ in range(2_000):
        if all(each.id in stage.client.answered for each in late):
            break
        stage.client.receive(0.1)
    replayed = Replay(stage.log, stage.program).check()  # exactly one reply for each request
    assert replayed.replies == 41


def test_partitions_move_while_transactions_run_and_lose_and_repeat_nothing() -> None:
    stage = Stage(make_program(), interval_ms=100)
    first = stage.start("one")
    stage.turn(200)
    asked: list[WireRequest] = []
    for name in ("two", "three", "four"):
        stage.start(name)  # takes partitions over, from here on, in the middle of epochs
        for turn in range(80):
            made = [WireRequest(f"{name}-{turn}-{i}", "it", f"k{(turn + i) % 5}", "bump") for i in range(3)]
            made.append(WireRequest(f"{name}-{turn}", "it", f"k{turn % 5}", "swap", [f"k{(turn + 1) % 5}"]))
            stage.client.send_all(made)
            asked += made
            stage.turn(1)
    run(stage, [WireRequest("last", "it", "k0", "read")])
    for _ in range(2_000):
        if all(each.id in stage.client.answered for each in asked):
            break
        stage.client.receive(0.1)
    owned = {name: sorted(driver.node.partitions) for name, (driver, _) in stage.nodes.items()}
    assert len(first.node.partitions) < 3 and sum(map(len, owned.values())) == 3, f"they have moved: {owned}"
    replayed = Replay(stage.log, stage.program).check()  # exactly one reply for each request
    assert replayed.replies == len(asked) + 1


def test_what_is_inserted_in_bulk_is_inserted_by_transactions() -> None:
    """There is no other way in: a bulk has numbers in the one order, meets what runs beside it, and runs once."""
    stage = staged()
    bulk = [WireRequest(f"bulk{i}", "it", f"k{i % 50}", "write", [1_000 + i]) for i in range(500)]
    beside = [WireRequest(f"b{i}", "it", f"k{i % 50}", "swap", [f"k{(i + 7) % 50}"]) for i in range(100)]
    mixed = [each for i, one in enumerate(bulk) for each in (one, *beside[i // 5 : i // 5 + (i % 5 == 0)])]
    run(stage, mixed)
    stage.client.take_all()
    run(stage, mixed)  # the whole bulk again, as after a time-out
    replayed = Replay(stage.log, stage.program).check()
    replies = [each for p in range(3) for each in stage.log.read(stage.topics.replies, p, 0).values]
    tids = [reply.tid for value in replies for reply in reply_message(value).replies]
    assert len(replayed.serial.state) == 50 and replayed.reruns > 0, "some of what ran beside it met it"
    assert (len(tids), len(set(tids)), min(tids) >= 0) == (1_200, 600, True), "what ran has a number, the rest has its"


def test_checkpoints_go_on_after_a_long_pause() -> None:
    stage = Stage(make_program(), interval_ms=100)
    driver = stage.start("one")
    stage.turn(200)
    run(stage, [WireRequest(f"a{i}", "it", f"k{i}", "bump") for i in range(7)])
    stage.turn(300)
    before = driver.checkpoints.first_epoch_needed()
    assert before > 0
    stage.turn(2_000)  # ten seconds without a request
    for i in range(12):
        run(stage, [WireRequest(f"b{i}-{k}", "it", f"k{k}", "bump") for k in range(7)])
        stage.turn(300)
    assert driver.checkpoints.first_epoch_needed() > before


def test_numbers_of_transactions_go_beyond_32_bits() -> None:
    program = make_program()
    begin = LedgerState(0, 0, FAR, [], [1], [0], [], [], [])
    node = TransactionNode(program, 1, None, begin)
    calls: dict[int, list[bytes]] = {p: [] for p in range(program.partitions)}
    read = dict.fromkeys(calls, 0)
    epochs: list[bytes] = []
    replies: list[bytes] = []
    events: list[e.Event] = [e.PartitionTaken(p) for p in calls]
    record = request_record([WireRequest(f"r{i}", "it", f"k{i % 3}", "swap", [f"k{(i + 1) % 3}"]) for i in range(9)])
    events += [e.SequencerTaken(0), e.RequestsRead(0, [0], [record], 1)]
    for turn in range(100):
        for append in [each for event in events for each in node.step(event, 1_000 + turn)]:
            match append:
                case AppendEpochs(value):
                    epochs.append(value)
                case AppendCalls(partition, value):
                    calls[partition].append(value)
                case AppendReply(_, value):
                    replies.append(value)
        events = [e.EpochsRead(epochs[node.ledger.position :], len(epochs))]
        for p, values in calls.items():
            events.append(e.CallsRead(p, list(range(read[p], len(values))), values[read[p] :]))
            read[p] = len(values)
    tids = [reply.tid for value in replies for reply in reply_message(value).replies]
    assert sorted(tids) == list(range(FAR, FAR + 9))
