"""The programs of a node: the one that it was started with, and others of its job that it loads beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from holon.errors import described
from holon.fingerprint.version import JobVersion
from nodes.errors import UnknownName
from nodes.machine.ownership.programs import NamedProgram, ProgramFold
from nodes.transactions.upgrades.versioned_modules import forget_version, import_version
from transactional.describing import version_of
from transactional.errors import USER_ERRORS, ProgramMissing
from transactional.operators import Program
from transactional.program_versions import KnownPrograms, ProgramVersion

logger = logging.getLogger(__name__)


def named_program(program: ProgramVersion, since: int = 0) -> NamedProgram:
    """As the control topic has it."""
    record = msgspec.json.encode(program).decode()
    return NamedProgram(program.number, program.code, program.version, program.reference, record, since)


def version_record(named: NamedProgram) -> ProgramVersion:
    """As the epochs topic has it. Raises ``ProgramMissing`` where a newer release has written it."""
    try:
        return msgspec.json.decode(named.record, type=ProgramVersion)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ProgramMissing(f"program {named.reference} is described as this release cannot read: {error}") from None


def never_held(holds: ProgramVersion, reference: str, code: str) -> str:
    """The error for a node with a program that the job has never gone on with, where ``holds`` holds by an upgrade."""
    return (
        f"job {holds.name!r} goes on with {holds}, and was never {reference} (code {code}): start this node with "
        f"{holds.reference}, then holon txn upgrade {reference}; --accept-code runs it in the place of that one"
    )


def loaded_version(version: ProgramVersion, described_as: JobVersion | None = None) -> Program:
    """A version by its reference, under module names of its own. Raises ``ProgramMissing`` with the reason.

    ``described_as``: for the message, which definitions differ.
    """
    name, _, attribute = version.reference.partition(":")
    try:
        module = import_version(name, version.code)
        program = getattr(module, attribute, None)
        if not isinstance(program, Program):
            raise ProgramMissing(f"{version.reference} is no transactional program here")
        found = version_of(program)
    except (*USER_ERRORS, UnknownName) as error:
        forget_version(version.code)
        if isinstance(error, ProgramMissing):
            raise
        raise ProgramMissing(f"{version.reference} cannot be imported here: {described(error)}") from error
    if found.code != version.code:
        forget_version(version.code)
        other = "" if described_as is None else f"; other is {found.changed_since(described_as)}"
        raise ProgramMissing(f"{version.reference} has code {found.code} here, and not {version.code}{other}")
    return program


class NodePrograms:
    """Of one node. ``own``: the program that it was started with, by ``reference``.

    ``accept``: it runs in the place of a version that cannot be loaded; the operator has confirmed that. ``load``
    gives another version, and raises ``ProgramMissing``.
    """

    def __init__(
        self,
        own: Program,
        reference: str,
        version: JobVersion,
        *,
        accept: bool = False,
        load: Callable[[ProgramVersion, JobVersion | None], Program] = loaded_version,
    ) -> None:
        self.load = load
        self.own = own
        self.reference = reference
        self.version = version
        self._accept = accept
        self.known = KnownPrograms(own, code=version.code, load=self._load)

    @property
    def described(self) -> ProgramVersion:
        """The node's own, as the first of its job."""
        return ProgramVersion.of(self.own, code=self.version.code, reference=self.reference)

    def begins(self, fold: ProgramFold) -> None:
        """Before the ledger is begun: number 0 is the job's, whichever this node was started with.

        Raises ``ProgramMissing`` where the version that holds is not here, or the node's own has never held.
        """
        self.known.first = version_record(fold.holding[0]) if fold.holding else self.described
        if not fold.holding:
            return
        holds = version_record(fold.holding[-1])
        if any(each.code == self.version.code for each in fold.holding):
            self.known.program(holds)
        elif not self._accept:
            raise ProgramMissing(never_held(holds, self.reference, self.version.code))
        else:
            logger.warning("%s runs in the place of %s, as was confirmed", self.reference, holds)
            self.known.add(holds.code, self.own)

    def _load(self, version: ProgramVersion) -> Program:
        try:
            return self.load(version, None)
        except ProgramMissing as error:
            if not self._accept:
                raise ProgramMissing(
                    f"job {version.name!r} has to run {version}, and this node does not have it: {error}. Start it "
                    f"where {version.reference} is as it was; --accept-code runs {self.reference} in its place"
                ) from error
            logger.warning("%s; %s runs in its place, as was confirmed", error, self.reference)
            return self.own
