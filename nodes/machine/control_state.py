"""The folded control topic as one value, and its bytes: where a reader begins that does not read from the start.

Two rules for this file: equal states give equal bytes; bytes from outside fail here and nowhere later, as
``BadMessage``.
"""

from __future__ import annotations

import msgspec

from nodes.machine import messages as m
from nodes.machine.ownership.layouts import first_format
from nodes.machine.ownership.programs import ProgramState
from nodes.machine.ownership.schemas import SchemaState

NO_INCARNATION = -1
MAX_CHECKPOINT_BYTES = 12 << 20


class ControlledPartition(msgspec.Struct, array_like=True):
    """The state of one partition."""

    owner: str | None = None
    version: int = 0
    released_to: str | None = None
    end_offset: int | None = None
    checkpoints: list[m.CheckpointSaved | m.PartSaved] = []  # oldest first
    failures: list[m.Failed] = []  # one for each code hash, in log order
    end_reached: bool = False
    deaths: int = 0  # owners that were taken over from without a release since the last checkpoint that got on
    crashed: list[m.Crashed] = []  # in log order
    steals: int = 0  # claims of it while another had it

    def copied(self) -> ControlledPartition:
        """One that goes its own way."""
        lists = {"checkpoints": list(self.checkpoints), "failures": list(self.failures), "crashed": list(self.crashed)}
        return msgspec.structs.replace(self, **lists)


class ControlState(msgspec.Struct, array_like=True, kw_only=True):
    """All that ``Ownership`` folds; lists of names are sorted."""

    incarnation: int = NO_INCARNATION
    started: m.JobStarted | None = None
    members: list[tuple[str, int]] = []
    stopping: list[str] = []
    retries: int = 0
    merged: list[m.MergedSaved] = []  # oldest first
    merged_count: int = 0
    partitions: list[ControlledPartition] = []
    codes: list[str] = []  # versions of the program that may work on the job, oldest first
    node_incarnations: list[
        tuple[str, int]
    ] = []  # the newest incarnation under each name, in the order of their Hellos
    commands: list[str] = []  # ids of the commands that were taken, oldest first
    programs: ProgramState = ProgramState()
    layouts: tuple[str, str, str] = ("", "", "")  # as ``LayoutFold`` has them
    schemas: SchemaState = SchemaState()
    decisions: list[str] | None = None  # of autoscalers, oldest first; None: a release before has left them out


class ControlCheckpoint(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The state of the control topic before ``offset``."""

    offset: m.Natural
    state: ControlState


_DECODER = msgspec.msgpack.Decoder(ControlCheckpoint)


def encode_control_checkpoint(checkpoint: ControlCheckpoint) -> bytes:
    """Raises ``BadMessage`` (too large)."""
    states = checkpoint.state.partitions
    formats = [crashed.format for state in states for crashed in state.crashed]
    formats += [m.PARTS_VERSION for state in states for saved in state.checkpoints if isinstance(saved, m.PartSaved)]
    if checkpoint.state.programs != ProgramState():
        formats.append(m.PROGRAMS_VERSION)
    if any(checkpoint.state.layouts):
        formats.append(first_format(checkpoint.state.layouts))
    if checkpoint.state.schemas != SchemaState():
        formats.append(m.SCHEMAS_VERSION)
    return m.seal(checkpoint, MAX_CHECKPOINT_BYTES, max(formats, default=m.FIRST_VERSION))


def decode_control_checkpoint(data: bytes) -> ControlCheckpoint:
    """Raises ``BadMessage``, and nothing else, on any bytes that ``encode_control_checkpoint`` cannot give."""
    checkpoint = m.unseal(_DECODER, data, MAX_CHECKPOINT_BYTES)
    state = checkpoint.state
    if not state.partitions or (state.started is None) != (state.incarnation == NO_INCARNATION):
        raise m.BadMessage(m.BadReason.MALFORMED, f"{len(state.partitions)} partitions, started: {state.started}")
    return checkpoint
