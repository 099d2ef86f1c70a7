"""Bugs in what followed functions name: times, and dicts of constants."""

from __future__ import annotations

from deploy.mutants.model import Mutant

FORMATS = ("tests/unit/holon/dataflow/test_formats.py",)
SCANNED = ("tests/unit/holon/dataflow/test_code_scan.py",)
RECORDS = ("tests/unit/holon/dataflow/test_record_functions.py",)
TIMES = ("tests/unit/holon/dataflow/test_followed_times.py",)
TABLES = ("tests/unit/holon/dataflow/test_followed_tables.py",)
OF_TIMES = "holon/dataflow/following/time_columns/attributes.py"
OF_TABLES = "holon/dataflow/following/tables.py"
CALLS = "holon/dataflow/following/calls.py"
TEXTS = "holon/dataflow/following/whole_texts.py"
SCAN = "holon/dataflow/code_scan.py"
COLUMNS = "holon/columnar/structs/times.py"

NAMED_VALUES = (
    Mutant(
        "members of datetime that are not pure are followed",
        CALLS,
        '        raise Untraceable(f"it uses datetime.{name}")\n\n\ndef',
        "        return getattr(datetime, name)\n\n\ndef",
        tests=TIMES,
    ),
    Mutant(
        "a time without a zone is of UTC",
        COLUMNS,
        "        if bool(np.any(self._zones == LOCAL)):\n            return None\n        micros = self._micros",
        "        micros = self._micros + np.where(self._zones == LOCAL, LOCAL * _MICROS_OF_MINUTE, 0)",
        tests=TIMES,
    ),
    Mutant(
        "seconds of any year are quotients of floats",
        COLUMNS,
        " if are_floats(micros) else None",
        "",
        tests=TIMES,
    ),
    Mutant(
        "texts that the loop leaves are of 1970",
        OF_TIMES,
        "if found is not None and not len(found[1]):",
        "if found is not None:",
        tests=TIMES,
    ),
    Mutant(
        "parts of a clock are those of UTC",
        COLUMNS,
        "return self._micros // unit % most",
        "return (self._micros - np.where(self._zones == LOCAL, 0, self._zones) * _MICROS_OF_MINUTE) // unit % most",
        tests=TIMES,
    ),
    Mutant(
        "attributes of any object are taken by their names",
        CALLS,
        'if not (owner is None or isinstance(owner, Placeholder)) or type(name) is not str or name.startswith("_"):',
        "if type(name) is not str:",
        tests=TIMES,
    ),
    Mutant(
        "the module datetime is as it is",
        CALLS,
        "    (datetime_module, _MODULE),\n",
        "",
        tests=TIMES,
    ),
    Mutant(
        "a dict is read when the function is followed",
        OF_TABLES,
        "        self._table = table\n        self._method",
        "        self._table = dict(table)\n        self._method",
        tests=TABLES,
    ),
    Mutant(
        "a constant key is looked up when the function is followed",
        OF_TABLES,
        "        path, look_up = Path.current(), LookUp(self._table, method)\n",
        "        path, look_up = Path.current(), LookUp(self._table, method)\n"
        "        if isinstance(key, str):\n            return getattr(self._table, method)(key, *others)\n",
        tests=TABLES,
    ),
    Mutant(
        "what a dict does not have is never None",
        OF_TABLES,
        "        if path.asks_none and path.has_no_value(",
        "        if path.asks_none and False and path.has_no_value(",
        tests=TABLES,
    ),
    Mutant(
        "dicts that fill themselves are tables",
        SCAN,
        "return type(value) is dict and all(map(_is_key, value))",
        "return isinstance(value, dict) and all(map(_is_key, value))",
        tests=TABLES,
    ),
    Mutant(
        "values of a dict may change",
        SCAN,
        " and all(map(is_constant, value.values()))",
        "",
        tests=TABLES,
    ),
    Mutant(
        "keys of a dict may run code",
        SCAN,
        "return is_constant(value) and not any(_has_operators(kind) for kind in _enums_in(value))",
        "return True",
        tests=TABLES,
    ),
    Mutant(
        "a dict may be given as it is",
        OF_TABLES,
        "    __class__ = property(_refused)  # type: ignore[assignment]\n    __bool__ = __len__ = __iter__",
        "    __bool__ = __len__ = __iter__",
        tests=TABLES,
    ),
    Mutant(
        "values of few rows are looked up in the order of their keys",
        "holon/dataflow/following/column_functions.py",
        "return column.take(numbers)",
        "return column.take(np.sort(numbers))",
        tests=TABLES,
    ),
    Mutant(
        "a row fails at a condition before what Python computes first",
        "holon/dataflow/expressions.py",
        "        for one in decision.before:\n            evaluate(one, rows)\n",
        "",
        tests=("tests/laws/test_flow_expressions.py",),
    ),
    Mutant(
        "a formatted text that a name holds may be compared",
        TEXTS,
        "stack.append(_TEXT if is_text else _ARGUMENT if is_argument else _OTHER)",
        "stack.append(_ARGUMENT if is_argument else _OTHER)",
        tests=FORMATS,
    ),
    Mutant(
        "formatted texts may be inserted into a list",
        TEXTS,
        "of == _ARGUMENT and step.argval in _SINKS",
        "step.argval in _SINKS",
        tests=FORMATS,
    ),
    Mutant(
        "a function that the followed one calls has arguments of Holon's",
        TEXTS,
        "is_followed = len(self._known) == 1",
        "is_followed = True",
        tests=FORMATS,
    ),
    Mutant(
        "an argument that is assigned is what it was",
        TEXTS,
        "set(code.co_varnames[: code.co_argcount]) - stored if",
        "set(code.co_varnames[: code.co_argcount]) if",
        tests=FORMATS,
    ),
    Mutant(
        "formatted texts in a dict may be looked up",
        TEXTS,
        "stack.append(_TEXT if _TEXT in list(map(self._given, values)) else _OTHER)",
        "stack.append(_OTHER)",
        tests=FORMATS,
    ),
    Mutant(
        "a formatted text that nobody uses fails nowhere",
        "holon/dataflow/following/path.py",
        "        if not is_shown:\n",
        "        if False:\n",
        tests=FORMATS,
    ),
    Mutant(
        "a field is called as what a placeholder knows of it",
        "holon/dataflow/following/placeholders.py",
        "    def __bool__(self) -> bool:\n        return self._holon_path",
        "    _type = property(lambda self: self._holon_type)\n\n"
        "    def __bool__(self) -> bool:\n        return self._holon_path",
        tests=SCANNED,
    ),
    Mutant(
        "an attribute of a function is called as what stands for it knows",
        "holon/dataflow/record_functions/stand_ins.py",
        "        states = self._holon_methods.states[self._holon_at]\n",
        '        if name == "_at":\n            return self._holon_at\n'
        "        states = self._holon_methods.states[self._holon_at]\n",
        tests=RECORDS,
    ),
    Mutant(
        "functions of aggregates keep the stand-ins of the function around them",
        "holon/dataflow/groups.py",
        "Aggregate(kind, lattice, as_written(of))",
        "Aggregate(kind, lattice, of)",
        tests=TABLES,
    ),
)
