"""The comparison for people: a table in Markdown with machine and settings, and pictures."""

from __future__ import annotations

from pathlib import Path

import msgspec

from nexmark.bench.result import BUSY_CORES, BenchResult, EngineRow
from nexmark.pictures import picture, write_files


def write_report(result: BenchResult, folder: Path) -> list[Path]:
    """``bench.json``, ``bench.md`` and, with matplotlib, ``bench.svg``; what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    return write_files(folder, "bench", msgspec.to_builtins(result), markdown(result), lambda path: plot(result, path))


def markdown(result: BenchResult) -> str:
    """Table, ratios, and what has to be known to repeat it."""
    busy = "" if result.quiet else f" **The machine was too busy to measure** (others above {BUSY_CORES} cores)."
    atoms = " in Arrow record batches" if result.format == "arrow" else ""
    agreed = {None: "were not compared", True: "agree", False: "DIFFER"}[result.agree]
    lines = [
        f"{result.events:,} events{atoms}, {result.partitions} partitions, {result.pairs} runs each in turn, cores "
        f"{', '.join(map(str, result.cores))} with the broker on them, {result.memory_mb} MB for each engine, "
        f"{result.nodes} Holon nodes. Answers {agreed}. Others used {result.other_load_cores} cores.{busy}",
        "",
        _warmup(result),
        "",
        "| query | engine | sink | checkpoints every s | events/s: min | median | max | events a CPU-second | "
        "MB of a process | MB in all |",
        "|" + "---|" * 10,
        *map(_line, result.rows),
    ]
    lines += [f"* {line}" for line in (*result.over_memory, *_missing(result))]
    for peer, ratios in result.ratios_over.items():
        lines += ["", f"| Holon over {peer} | events/s | median of pairs | events a CPU-second | memory of a process |"]
        lines += ["|" + "---|" * 5]
        lines += [
            f"| {key} | {r.events_per_s:.2f} | {r.pairs_median:.2f} | {r.events_per_cpu_s:.2f} | {r.memory:.2f} |"
            for key, r in ratios.items()
        ]
    lines += ["", "Machine: " + ", ".join(f"{name} {value}" for name, value in result.machine.items()) + "."]
    for engine, settings in result.settings.items():
        lines += ["", f"Settings of {engine}:", "", "```", *(f"{k}: {v}" for k, v in settings.items()), "```"]
    return "\n".join(lines) + "\n"


def as_text(result: BenchResult) -> str:
    """For a terminal: the table without what the report alone is for."""
    return markdown(result).split("\nMachine: ")[0]


def plot(result: BenchResult, path: Path) -> None:
    """Events a second and events a CPU-second of each row, with the spread of the runs."""
    keys = list(dict.fromkeys(row.variant for row in result.rows))
    engines = list(dict.fromkeys(row.engine for row in result.rows))
    width = 0.8 / max(1, len(engines))
    with picture(path, 2, 1, (10, 8)) as (_, axes):
        for position, engine in enumerate(engines):
            rows = [row for row in result.rows if row.engine == engine]
            at = [keys.index(row.variant) + (position - (len(engines) - 1) / 2) * width for row in rows]
            medians = [row.events_per_s.median / 1000 for row in rows]
            below = [(row.events_per_s.median - row.events_per_s.min) / 1000 for row in rows]
            above = [(row.events_per_s.max - row.events_per_s.median) / 1000 for row in rows]
            axes[0].bar(at, medians, width, yerr=[below, above], capsize=3, label=engine)
            axes[1].bar(at, [row.events_per_cpu_s / 1000 for row in rows], width, label=engine)
        for axis, label in zip(axes, ("thousand events a second", "thousand events a CPU-second"), strict=True):
            axis.set_xticks(range(len(keys)), keys, rotation=30)
            axis.set_ylabel(label)
            axis.grid(axis="y", alpha=0.3)
            axis.legend()


def _line(row: EngineRow) -> str:
    spread = row.events_per_s
    checkpoints = "off" if row.checkpoints_s is None else f"{row.checkpoints_s:g}"
    return (
        f"| {row.query} | {row.engine} | {row.sink} | {checkpoints} | {spread.min:,.0f} | {spread.median:,.0f} | "
        f"{spread.max:,.0f} | {row.events_per_cpu_s:,.0f} | {row.peak_uss_mb:,.0f} | {row.peak_all_uss_mb:,.0f} |"
    )


def _warmup(result: BenchResult) -> str:
    warmth = result.broker_warmup
    if warmth is None:
        return "The broker was not warmed up."
    text = f"Before, {warmth.read_mb:,.0f} MB were read from the broker in {warmth.seconds:g} s to warm it"
    if warmth.compiler_cores is None:
        return f"{text}."
    return text + ": its compiler took {:g} cores at the beginning and {:g} at the end.".format(*warmth.compiler_cores)


def _missing(result: BenchResult) -> list[str]:
    return [f"{peer} was left out: {why.splitlines()[0]}" for peer, why in result.missing_peers.items()]
