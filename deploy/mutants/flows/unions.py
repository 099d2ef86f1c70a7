"""Bugs in functions that ask which of several Structs a value is."""

from __future__ import annotations

from deploy.mutants.model import Mutant

ASKED = ("tests/unit/holon/dataflow/test_unions.py",)

SCANNED = ("tests/unit/holon/dataflow/test_code_scan.py",)
FORMATS = ("tests/unit/holon/dataflow/test_formats.py",)

UNIONS = (
    Mutant(
        "methods of Structs run while a function is followed",
        "holon/dataflow/code_scan.py",
        "    found.check_members()\n",
        "",
        tests=SCANNED,
    ),
    Mutant(
        "operators of a Struct's own run while a function is followed",
        "holon/dataflow/code_scan.py",
        "(is_special or name in self.attributes)",
        "name in self.attributes",
        tests=SCANNED,
    ),
    Mutant(
        "enums within tuples have no code",
        "holon/dataflow/code_scan.py",
        "elif type(value) in (tuple, frozenset, set):\n        for one in value:\n",
        "elif type(value) in (list, frozenset, set):\n        for one in value:\n",
        tests=SCANNED,
    ),
    Mutant(
        "enums of a processing function may have methods",
        "holon/dataflow/record_functions/stand_ins.py",
        "if not (is_constant(member) and runs_no_code(member)):",
        "if not is_constant(member):",
        tests=("tests/unit/holon/dataflow/test_record_functions.py",),
    ),
    Mutant(
        "a text that its method has formatted may be compared",
        "holon/dataflow/following/whole_texts.py",
        "stack += [_FORMATS, _OTHER]",
        "stack += [_OTHER, _OTHER]",
        tests=FORMATS,
    ),
    Mutant(
        "the method that formats a text may be handed on",
        "holon/dataflow/following/whole_texts.py",
        "            if not is_method:  # it is called elsewhere",
        "            if is_method and not step.argrepr:",
        tests=FORMATS,
    ),
    Mutant(
        "a function within a function formats texts by their method",
        "holon/dataflow/following/whole_texts.py",
        'step.opname.startswith("FORMAT") or step.argval in _FORMAT_METHODS',
        'step.opname.startswith("FORMAT")',
        tests=FORMATS,
    ),
    Mutant(
        "a formatted text may be formatted once more",
        "holon/dataflow/following/whole_texts.py",
        "            self._used(*arguments)\n            stack.append(_TEXT)",
        "            stack.append(_TEXT)",
        tests=FORMATS,
    ),
    Mutant(
        "a Struct that inherits from another one is that one",
        "holon/dataflow/following/declared.py",
        "return value if type(value) is self.kind else None",
        "return value if isinstance(value, self.kind) else None",
        tests=ASKED,
    ),
    Mutant(
        "two constants that are equal are one result",
        "holon/dataflow/following/loops/ways.py",
        "isinstance(other, Constant) and one.value is other.value",
        "isinstance(other, Constant) and one.value == other.value",
        tests=ASKED,
    ),
    Mutant(
        "stand-ins of types are compared as if they were these",
        "holon/dataflow/code_scan.py",
        "    return value is NoneType or _has_class(value)",
        "    return isinstance(value, type)",
        tests=ASKED,
    ),
    Mutant(
        "a field that one Struct lacks lets all rows go one by one",
        "holon/dataflow/tracing.py",
        "path.has_raised or isinstance(error, LacksAttribute)",
        "path.has_raised",
        tests=ASKED,
    ),
    Mutant(
        "a pattern with a field that no row has is an error",
        "holon/dataflow/errors.py",
        "class NoSuchField(FlowError, AttributeError):",
        "class NoSuchField(FlowError):",
        tests=ASKED,
    ),
    Mutant(
        "a column that is called as a Struct is taken for its rows",
        "holon/dataflow/rows.py",
        "(type(path[0]) is not Member or self.are_of_kinds)",
        "(type(path[0]) is Member or len(path) > 0)",
        tests=ASKED,
    ),
    Mutant(
        "rows that a function has made are of their declared types",
        "holon/dataflow/following/placeholders.py",
        "kinds = kinds_of_field(struct, name) if self._holon_path.is_checked else ()",
        "kinds = kinds_of_field(struct, name)",
        tests=ASKED,
    ),
    Mutant(
        "a default is of the declared type",
        "holon/dataflow/following/declared.py",
        "return kinds if is_known else ()",
        "return kinds",
        tests=ASKED,
    ),
    Mutant(
        "a value that is none of the other Structs is the first one",
        "holon/dataflow/following/path.py",
        "next(asked, kinds[-1])",
        "next(asked, kinds[0])",
        tests=ASKED,
    ),
    Mutant(
        "each use of a field has a Struct of its own",
        "holon/dataflow/following/path.py",
        "        kind = self._kinds.get(field.path)\n",
        "        kind = None\n",
        tests=(*ASKED, "tests/laws/test_flow_unions.py"),
    ),
    Mutant(
        "a class that answers isinstance itself is asked with a placeholder",
        "holon/dataflow/code_scan.py",
        "if any(type(one).__instancecheck__ not in _KNOWN_CHECKS for one in structs):",
        "if not _KNOWN_CHECKS:",
        tests=ASKED,
    ),
    Mutant(
        "a Struct without fields has no rows beside other values",
        "holon/dataflow/following/placeholders.py",
        "isinstance(result, msgspec.Struct) and type(result).__struct_fields__:",
        "isinstance(result, msgspec.Struct):",
        tests=ASKED,
    ),
)
