"""The record of a program on a job's log: the code of its functions and the types of its operators' states."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from holon.fingerprint.reach import CodePrint, code_print
from holon.fingerprint.schema import FieldShape, TypeShape, plain, shape_of
from holon.fingerprint.version import JobVersion
from transactional.entities import Entity, state_fields
from transactional.operators import Operator, Program
from transactional.state.values import BadValue, encode
from transactional.state.versioned_values import FIRST_VERSION, value_now
from transactional.streams import CURSORS


def code_of(program: Program) -> CodePrint:
    """All of the user's code that answers follow from, and the limits that all nodes have to agree on."""
    roots: dict[str, Any] = {"errors": list(program.errors.values()), "external functions": program.externals}
    roots["limits"] = msgspec.to_builtins(program.limits)
    if program.version != FIRST_VERSION:
        roots["version"] = program.version
    owners: list[Any] = list(program.externals.values())
    for name, operator in _operators(program):
        roots |= {f"{name}.{called}": function for called, function in sorted(operator.functions.items())}
        roots[f"state of {name}"] = operator.state
        if operator.upgrade is not None:
            roots[f"upgrade of {name}"] = operator.upgrade
        roots |= {f"{name} bound to {each.topic}": [each.key, each.arguments] for each in operator.bindings}
        owners += operator.functions.values() if operator.entity is None else [operator.entity]
    return code_print(roots, owners)


def version_of(program: Program) -> JobVersion:
    """Code and state types, as the program is now."""
    shapes = {name: state_shape(operator) for name, operator in _operators(program)}
    return JobVersion.of(code_of(program), {name: shape for name, shape in shapes.items() if shape is not None})


def untyped(program: Program) -> list[str]:
    """Operators whose state has no declared type: whether it fits is not known."""
    return [name for name, operator in _operators(program) if state_shape(operator) is None]


def state_shape(operator: Operator) -> TypeShape | None:
    """The shape of an entity's state; None where it has no declared type."""
    if operator.entity is not None:
        return _entity_shape(operator.entity)
    return None if operator.state is None else shape_of(operator.state)


def read_as(program: Program, operator: Operator, data: bytes) -> Any:
    """A stored value as a function of this program would read it, whichever version has written it.

    Raises ``BadValue``, also where another upgrade of the same value gives other bytes.
    """
    now = partial(value_now, data, program.version, operator.state, operator.upgrade, program.limits.max_value_bytes)
    value = now()
    if operator.upgrade is not None and encode(value) != encode(now()):
        raise BadValue("its upgrade gives other values for the same value: it depends on more than its arguments")
    if operator.entity is not None:
        if not isinstance(value, dict):
            raise BadValue(f"{type(value).__name__} is no state of an entity")
        for name, kind in state_fields(operator.entity).items():
            if name in value:
                try:
                    msgspec.convert(value[name], kind)
                except msgspec.ValidationError as error:
                    raise BadValue(f"field {name}: {error}") from None
    return value


def _operators(program: Program) -> list[tuple[str, Operator]]:
    return [(name, operator) for name, operator in sorted(program.operators.items()) if name != CURSORS]


def _entity_shape(entity: type[Entity]) -> TypeShape:
    """Fields without a value of the class are there once a method has set them."""
    hints: dict[str, Any]
    try:
        hints = state_fields(entity)
    except NameError:  # names types that only its function knows
        hints = dict.fromkeys(entity.__annotations__, object)
    fields: list[FieldShape] = []
    for name, kind in hints.items():
        refers = isinstance(kind, type) and issubclass(kind, Entity)
        shape = TypeShape("str", f"key of {kind.__name__}") if refers else shape_of(kind)
        value = plain(getattr(entity, name)) if hasattr(entity, name) else None
        fields.append(FieldShape(name, shape, value, optional=True))
    return TypeShape("record", entity.__name__, fields=tuple(fields))
