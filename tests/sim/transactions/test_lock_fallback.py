"""Styx's lock-based fallback as a reference: it equals the plain loop too, and ends as reruns do."""

from __future__ import annotations

from random import Random

from tests.sim.lock_fallback import LockFallback
from tests.sim.transactions_scripts import Scripts, make_program
from tests.unit.txn_stage import Stage
from transactional import Serial
from transactional.workloads import ycsb_t
from transactional.workloads.contract import WorkloadShape


def test_random_transactions_under_locks_equal_one_plain_loop() -> None:
    under_locks = rescheduled = 0
    for seed in range(300):
        draw = Random(seed)
        program = make_program(3)
        scripts = Scripts(draw, draw.choice([3, 10]))
        fallback, tid = LockFallback(program, draw), 0
        for _ in range(draw.randrange(1, 5)):
            requests = []
            for _ in range(draw.randrange(1, 10)):
                operator, key = scripts.entity()
                tid += 1
                requests.append((tid, program.target(operator, key, "run", [scripts.script(operator)])))
            fallback.epoch(requests)
        epochs = 0
        while fallback.carried:
            fallback.epoch([])
            epochs += 1
            assert epochs <= tid, "the lowest always ends"
        serial = Serial(program)
        for number, target, outcome in fallback.outcomes:
            assert serial.run(target, number, 0) == outcome, f"seed {seed}, TID {number}"
        assert fallback.store.items == serial.state
        assert sorted(number for number, _, _ in fallback.outcomes) == list(range(1, tid + 1))
        under_locks, rescheduled = under_locks + fallback.under_locks, rescheduled + fallback.rescheduled
    assert under_locks > 100 and rescheduled > 10


def test_transfers_end_alike_under_locks_and_by_rerun() -> None:
    shape = WorkloadShape(6, 0.9, seed=4)
    requests = ycsb_t.workload.load(shape) + ycsb_t.workload.requests(shape, 0, 60)
    fallback = LockFallback(ycsb_t.program, Random(1))
    targets = [ycsb_t.program.target(each.operator, each.key, each.function, each.args) for each in requests]
    fallback.epoch([(n, target) for n, target in enumerate(targets[:6])])
    fallback.epoch([(n, target) for n, target in enumerate(targets) if n >= 6])
    while fallback.carried:
        fallback.epoch([])
    stage = Stage(ycsb_t.program)
    stage.start("one"), stage.start("other")
    for part in (requests[:6], requests[6:]):
        stage.client.send_all(part)
        for _ in range(1_000):
            if all(each.id in stage.client.answered for each in part):
                break
            stage.client.receive(0.1)
    found = {each.key: stage.call("account", each.key, "read") for each in requests[:6]}
    assert found == {key: ycsb_t_balance(fallback, key) for key in found}
    assert fallback.under_locks > 10


def ycsb_t_balance(fallback: LockFallback, key: str) -> int:
    serial = Serial(ycsb_t.program)
    serial.state = fallback.store.items
    return serial.get("account", key)
