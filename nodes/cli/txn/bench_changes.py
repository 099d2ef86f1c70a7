"""Changes of fleet, partitions and program while `holon txn bench` runs: as options, and as shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodes.cli.output import fail
from nodes.errors import SettingsError, UnknownName

if TYPE_CHECKING:
    from nodes.transactions.bench.elastic import Repartition, Upgrade
    from nodes.transactions.bench.fleet import Change
    from nodes.transactions.bench.run import AnyChange
    from nodes.transactions.layouts.repartitioning import Mode, Spread
    from transactional.operators import Program
    from transactional.workloads.contract import BenchWorkload

KillOption = Annotated[list[str] | None, typer.Option("--kill", metavar="NODE@FRACTION", help="kill -9 there.")]
AddNodeOption = Annotated[
    list[float] | None,
    typer.Option("--add-node", metavar="FRACTION", min=0, max=1, help="One node more, at that share of the replies."),
]
RemoveNodeOption = Annotated[
    list[float] | None,
    typer.Option("--remove-node", metavar="FRACTION", min=0, max=1, help="The oldest node leaves (SIGTERM) there."),
]
RepartitionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--repartition", metavar="OPERATOR:M@FRACTION", help="It gets M partitions there, as by holon txn repartition."
    ),
]
UpgradeOption = Annotated[
    list[float] | None,
    typer.Option("--upgrade", metavar="FRACTION", min=0, max=1, help="The program's next version there."),
]
ALL = "all"
_PHASES = ("before", "during", "after")


def changes_of(
    workload: BenchWorkload,
    nodes: int,
    kills: Sequence[str],
    joins: Sequence[float],
    leaves: Sequence[float],
    moves: Sequence[str],
    ways: tuple[Spread, Mode],
    versions: Sequence[float],
) -> tuple[AnyChange, ...]:
    """All changes by share of the replies. One that cannot be ends the command before the run begins."""
    changes: list[AnyChange] = [*_of_fleet(nodes, kills, joins, leaves)]
    changes += [*_repartitions(workload.program, moves, ways), *_upgrades(workload, versions)]
    return tuple(sorted(changes, key=lambda change: change.share))


def _of_fleet(nodes: int, kills: Sequence[str], joins: Sequence[float], leaves: Sequence[float]) -> list[Change]:
    from nodes.transactions.bench.fleet import Change

    killed = [_kill(each, nodes) for each in kills]
    if len({number for number, _ in killed}) == nodes and not joins:
        fail(2, f"--kill of all {nodes} nodes leaves none to answer; give more --nodes")
    changes = [Change(share, "kill", number) for number, share in killed]
    changes += [Change(share, "add-node") for share in joins]
    changes += [Change(share, "remove-node") for share in leaves]
    return sorted(changes)


def _kill(text: str, nodes: int) -> tuple[int, float]:
    number, _, fraction = text.partition("@")
    try:
        found = int(number), float(fraction)
    except ValueError:
        fail(2, f"--kill wants NODE@FRACTION, not {text!r}")
    if not (0 <= found[0] < nodes and 0 <= found[1] <= 1):
        fail(2, f"--kill {text}: nodes count from 0 to {nodes - 1}, fractions go from 0 to 1")
    return found


def _repartitions(program: Program, texts: Sequence[str], ways: tuple[Spread, Mode]) -> list[Repartition]:
    """Each is tried on the layout that those before it leave."""
    from nodes.transactions.layouts.repartitioning import changed_layout
    from transactional.layout import Group, Layout

    wanted = sorted((_repartition(program, each, ways), each) for each in texts)
    layout = Layout.first(program.operators)
    for change, text in wanted:
        groups = sorted({Group.of(program.operators[name]) for name in change.operators}, key=str)
        try:
            layout = changed_layout(layout, change.operators, groups, change.to, change.spread)
        except SettingsError as error:
            fail(2, f"--repartition {text}: {error}")
    return [change for change, _ in wanted]


def _repartition(program: Program, text: str, ways: tuple[Spread, Mode]) -> Repartition:
    from nodes.transactions.bench.elastic import Repartition

    name, _, rest = text.partition(":")
    number, _, fraction = rest.partition("@")
    try:
        to, share = int(number), float(fraction)
    except ValueError:
        fail(2, f"--repartition wants OPERATOR:M@FRACTION or {ALL}:M@FRACTION, not {text!r}")
    if not 0 <= share <= 1:
        fail(2, f"--repartition {text}: fractions go from 0 to 1")
    known = [each for each in program.operators if not each.startswith("_")]
    if name != ALL and name not in known:
        raise UnknownName("operator", name, [*known, ALL])
    return Repartition(share, tuple(known) if name == ALL else (name,), to, *ways)


def _upgrades(workload: BenchWorkload, shares: Sequence[float]) -> list[Upgrade]:
    """The next version, at most once."""
    from nodes.transactions.bench.elastic import Upgrade
    from transactional.workloads.partitioned import next_reference

    if len(shares) > 1:
        fail(2, "--upgrade: there is one next version, so it is given once")
    return [Upgrade(share, next_reference(workload)) for share in shares]


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """The figures as text: one a line, and one for each migration, phase and upgrade."""
    for name, value in result.items():
        if name == "migrations":
            yield from (_line("migration", _migration(each)) for each in value)
        elif name == "upgrades":
            yield from (_line("upgrade", _upgrade(each)) for each in value)
        elif name in _PHASES:
            yield from [_line(name, _phase(value))] if value is not None else []
        elif name != "least_share" or value is not None:
            yield _line(name, value)


def _line(name: str, value: object) -> str:
    return f"{name:<24}{value}"


def _migration(each: Mapping[str, Any]) -> str:
    keys = "" if each["keys"] is None else f", {each['keys']} keys ({each['bytes']} bytes)"
    resumed = ", ended by another node" if each["resumed"] else ""
    names, ways = ", ".join(each["operators"]), f"{each['mode']}, {each['spread']}"
    return (
        f"{names}: {each['from']} to {each['to']} partitions ({ways}){keys} in {each['took_s']:.2f} s, "
        f"longest silence {each['downtime_ms']:.0f} ms{_share(each)}{resumed}"
    )


def _upgrade(each: Mapping[str, Any]) -> str:
    return (
        f"{each['from']} to {each['to']} from epoch {each['since_epoch']} on, in {each['took_s']:.2f} s, "
        f"longest silence {each['downtime_ms']:.0f} ms{_share(each)}"
    )


def _share(each: Mapping[str, Any]) -> str:
    share = each["least_share"]
    return "" if share is None else f", {100 * share:.0f} % of the replies due in the worst second"


def _phase(each: Mapping[str, float]) -> str:
    return f"p50 {each['p50']:.1f} ms, p99 {each['p99']:.1f} ms, {each['replies_per_s']:.0f} replies/s"
