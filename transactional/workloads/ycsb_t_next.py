"""The next version of the program of YCSB-T: a transfer replies with a record of the balance, and state is the same.

So each reply shows which version has run, and each value fits both.
"""

from __future__ import annotations

from transactional.context import Context
from transactional.operators import Operator, Program
from transactional.workloads import ycsb_t

account = Operator("account", partitions=ycsb_t.account.partitions)
account.register(ycsb_t.insert)
account.register(ycsb_t.read)
account.register(ycsb_t.add)


@account.register
async def transfer(ctx: Context, to: str, amount: int) -> dict[str, int]:
    """Pay; gives the new balance under its name."""
    return {"balance": await ycsb_t.transfer(ctx, to, amount)}


program = Program(ycsb_t.program.name, [account], errors=[ycsb_t.NotEnough])
