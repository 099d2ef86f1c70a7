"""The effects of a followed ``process`` on a batch: elements of states and results, in the order of Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.dataflow.expressions import Decision, Fields, decided, evaluate, in_order, joined, leaf_column
from holon.dataflow.following.column_functions import as_list, packed
from holon.dataflow.following.loops.ends import turns_of
from holon.dataflow.following.loops.loop import Carries, Computed, Effects, Loop, WayRaises
from holon.dataflow.outputs.json_rows import json_rows
from holon.dataflow.record_functions.stand_ins import EVENT_TIME, Emit, Insert
from holon.dataflow.rows import VALUE, Rows
from holon.formats.batch import Batch, Column
from holon.program.insert_arguments import ColumnEffects, ColumnInserts, ColumnOutputs

Places = NDArray[np.intp]


class RecordEffects:
    """The effects of ``process`` for a batch."""

    def __init__(self, decision: Decision, struct: type[msgspec.Struct]) -> None:
        self._decision = decision
        self._struct = struct

    def __call__(self, batch: Batch[Any]) -> ColumnEffects | None:
        columns: Mapping[str, Column] = {**batch.columns, EVENT_TIME: batch.ts_ms}
        rows = Rows(batch.ts_ms, np.arange(len(batch)), columns=columns, struct=self._struct, is_whole=True)
        try:
            found = _noted(self._decision, rows)
        except WayRaises:
            return None
        inserts = [_inserts(state, part, len(batch)) for state, part in found.inserts.items()]
        outputs = [(output, one) for output, each in found.outputs.items() for one in each]
        return ColumnEffects(
            inserts, [ColumnOutputs(output, json_rows(one.rows), one.places, one.keys) for output, one in outputs]
        )


class _Part(NamedTuple):
    """Elements of inserts; ``places``: their rows, which ascend."""

    places: Places
    elements: Any
    ts_ms: Column


class _Results(NamedTuple):
    """The values of emits as rows; ``places``: the rows that they come from, which ascend."""

    places: Places
    rows: Rows
    keys: list[Any] | None


class _Found(NamedTuple):
    """Elements by state; results by output, of which those of one row are in its order."""

    inserts: dict[str, _Part]
    outputs: dict[str, list[_Results]]


def _noted(decision: Decision, rows: Fields) -> _Found:
    """The effects of all ways, in the order of the rows, of one row in the order of its notes."""
    inserts: dict[str, list[_Part]] = {}
    outputs: dict[str, list[_Results]] = {}
    for places, leaf, taken in decided(decision, rows):
        assert isinstance(leaf, Effects)
        if leaf.raises and len(taken):
            raise WayRaises
        for note in leaf.notes if len(taken) else ():
            match note:
                case Insert():
                    part = _Part(places, _packed(leaf_column(note.element, taken)), leaf_column(note.ts_ms, taken))
                    inserts.setdefault(note.state, []).append(part)
                case Emit():
                    outputs.setdefault(note.output, []).append(_emitted(note, places, taken))
                case Computed():
                    for one in note.expressions:
                        evaluate(one, taken)
                case Loop():
                    found = _of_turns(note, places, taken)
                    for state, part in found.inserts.items():
                        inserts.setdefault(state, []).append(part)
                    for output, pieces in found.outputs.items():
                        outputs.setdefault(output, []).extend(pieces)
                case Carries():
                    pass
                case _:
                    raise AssertionError(note)
    return _Found({state: _joined(parts) for state, parts in inserts.items()}, outputs)


def _of_turns(loop: Loop, places: Places, rows: Fields) -> _Found:
    """The effects of a loop, of each output in one piece."""
    if loop.is_silent:
        return _Found({}, {})
    items, index = turns_of(loop, rows)
    found = _noted(loop.body, items)
    inserts = {state: part._replace(places=places[index[part.places]]) for state, part in found.inserts.items()}
    outputs = {output: _in_one(pieces) for output, pieces in found.outputs.items()}
    return _Found(inserts, {name: [one._replace(places=places[index[one.places]])] for name, one in outputs.items()})


def _emitted(one: Emit, places: Places, rows: Fields) -> _Results:
    """The results of one way."""
    if isinstance(one.value.result, Mapping):
        columns = {name: leaf_column(field, rows) for name, field in one.value.result.items()}
    else:
        columns = {VALUE: leaf_column(one.value, rows)}
    keys = None if one.key is None else as_list(leaf_column(one.key, rows))
    nothing = np.zeros(len(rows), np.int64)
    return _Results(places, Rows(nothing, nothing, columns=columns, struct=one.value.struct), keys)


def _in_one(pieces: Sequence[_Results]) -> _Results:
    """All results in the order of their rows: of two results of one row the first piece has the first."""
    if len(pieces) == 1:
        return pieces[0]
    places = np.concatenate([one.places for one in pieces])
    order = np.argsort(places, kind="stable")
    objects = [value for one in pieces for value in one.rows.objects()]
    keys = [key for one in pieces for key in one.keys or [None] * len(one.rows)]
    nothing = np.zeros(len(places), np.int64)
    made = Rows(nothing, nothing, objects=[objects[place] for place in order.tolist()])
    has_keys = any(one.keys is not None for one in pieces)
    return _Results(places[order], made, [keys[place] for place in order.tolist()] if has_keys else None)


def _packed(elements: Any) -> Any:
    """Columns of elements; objects that are all texts or numbers as columns of these, which states check at once."""
    if isinstance(elements, tuple):
        return tuple(map(_packed, elements))
    return packed(elements) if isinstance(elements, list) else elements


def _inserts(state: str, part: _Part, rows: int) -> ColumnInserts:
    is_whole = len(part.places) == rows and bool((part.places == np.arange(rows)).all())
    return ColumnInserts(state, part.elements, part.ts_ms, None if is_whole else part.places)


def _joined(parts: Sequence[_Part]) -> _Part:
    """All elements of a state in the order of their rows, those of one row in the order of its inserts."""
    if len(parts) == 1:
        return parts[0]
    index, places = in_order([part.places for part in parts])
    elements = _joined_columns(places, [part.elements for part in parts], len(index))
    times = joined(list(zip(places, [part.ts_ms for part in parts], strict=True)), len(index))
    return _Part(index, elements, times)


def _joined_columns(places: Sequence[Places], columns: Sequence[Any], rows: int) -> Any:
    """As ``joined``, of columns or tuples of them."""
    if isinstance(columns[0], tuple):
        return tuple(_joined_columns(places, each, rows) for each in zip(*columns, strict=True))
    return joined(list(zip(places, columns, strict=True)), rows)
