"""Schemas of Protobuf as text, which registries have: parsed to the descriptors that the package ``protobuf`` takes.

Versions 2 and 3 of the language (protobuf.dev/reference/protobuf). Options, services and extensions change no value, or
only those of fields that are options; they are passed over. Groups and editions are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from google.protobuf import descriptor_pb2

from holon.errors import DeserializationError

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>[A-Za-z_][\w]*|[0-9][\w.+]*|[.;={}\[\]()<>,:+/-])""",
    re.DOTALL,
)
MAX_TOKENS, MAX_DEPTH = 500_000, 32
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: _Field.Type.Value(f"TYPE_{name.upper()}")
    for name in "double float int64 uint64 int32 fixed64 fixed32 bool string bytes uint32 sfixed32 sfixed64 sint32 "
    "sint64".split()
}
_LABELS = {"optional": _Field.LABEL_OPTIONAL, "required": _Field.LABEL_REQUIRED, "repeated": _Field.LABEL_REPEATED}


def parse_proto(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    """The file of a schema, whose types are named as the text does; raises ``DeserializationError``."""
    return _Parser(_tokens(text)).file(name)


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or len(found) >= MAX_TOKENS:
            raise DeserializationError(f"the schema is no Protobuf: {text[at : at + 20]!r}")
        at = match.end()
        if match.lastgroup is not None:
            found.append(match[0])
    return found


class _Parser:
    """Reads tokens one after the other."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def file(self, name: str) -> descriptor_pb2.FileDescriptorProto:
        found = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto2")
        while self._at < len(self._tokens):
            match word := self._next():
                case "syntax":
                    self._expect("=")
                    found.syntax = _unquoted(self._next())
                    if found.syntax not in ("proto2", "proto3"):
                        raise self._wrong(f"syntax {found.syntax}")
                    self._expect(";")
                case "package":
                    found.package = self._name()
                    self._expect(";")
                case "import":
                    path = self._next()
                    found.dependency.append(_unquoted(self._next() if path in ("public", "weak") else path))
                    self._expect(";")
                case "message":
                    self._message(found.message_type.add(), found.syntax == "proto3", 0)
                case "enum":
                    self._enum(found.enum_type.add())
                case "option" | "service" | "extend":
                    self._pass_over()
                case ";":
                    pass
                case _:
                    raise self._wrong(word)
        return found

    def _message(self, found: descriptor_pb2.DescriptorProto, is_proto3: bool, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise DeserializationError(f"the schema has messages more than {MAX_DEPTH} deep")
        found.name = self._next()
        self._expect("{")
        optional: list[descriptor_pb2.FieldDescriptorProto] = []
        while (word := self._next()) != "}":
            match word:
                case "message":
                    self._message(found.nested_type.add(), is_proto3, depth + 1)
                case "enum":
                    self._enum(found.enum_type.add())
                case "oneof":
                    self._oneof(found)
                case "option" | "reserved" | "extensions" | "extend":
                    self._pass_over()
                case ";":
                    pass
                case "optional" | "required" | "repeated" if self._peek() != "=":
                    field = found.field.add(label=_LABELS[word])
                    self._field(found, self._next(), field)
                    if is_proto3 and word == "optional":
                        optional.append(field)
                case _:
                    self._field(found, word, found.field.add())
        for field in optional:  # behind all others, as descriptors have them
            field.proto3_optional, field.oneof_index = True, len(found.oneof_decl)
            found.oneof_decl.add(name=f"_{field.name}")

    def _oneof(self, found: descriptor_pb2.DescriptorProto) -> None:
        found.oneof_decl.add(name=self._next())
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._pass_over()
            elif word != ";":
                self._field(found, word, found.field.add(oneof_index=len(found.oneof_decl) - 1))

    def _field(
        self,
        message: descriptor_pb2.DescriptorProto,
        word: str,
        field: descriptor_pb2.FieldDescriptorProto,
    ) -> None:
        if not field.HasField("label"):
            field.label = _Field.LABEL_OPTIONAL
        if word == "group":
            raise self._wrong("group")
        if word == "map" and self._peek() == "<":
            self._expect("<")
            key = self._name()
            self._expect(",")
            value = self._name()
            self._expect(">")
            field.name = self._next()
            entry = message.nested_type.add(name=_entry_name(field.name))
            entry.options.map_entry = True
            for number, (part, of) in enumerate((("key", key), ("value", value)), 1):
                _set_type(entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL), of)
            field.label, field.type_name = _Field.LABEL_REPEATED, entry.name
        else:
            _set_type(field, self._name(word))
            field.name = self._next()
        self._expect("=")
        field.number = self._number()
        self._options()
        self._expect(";")

    def _enum(self, found: descriptor_pb2.EnumDescriptorProto) -> None:
        found.name = self._next()
        self._expect("{")
        while (word := self._next()) != "}":
            if word in ("option", "reserved") and self._peek() != "=":
                if word == "option":
                    found.options.allow_alias = True  # aliases are accepted with any option
                self._pass_over()
            elif word != ";":
                self._expect("=")
                found.value.add(name=word, number=self._number())
                self._options()
                self._expect(";")

    # --- tokens -------------------------------------------------------------------------------------------------------

    def _next(self) -> str:
        if self._at == len(self._tokens):
            raise DeserializationError("the schema is no Protobuf: it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _expect(self, token: str) -> None:
        if (found := self._next()) != token:
            raise self._wrong(found)

    def _name(self, first: str | None = None) -> str:
        """A name with dots, which are tokens of their own."""
        parts = [self._next() if first is None else first]
        while parts[-1] == "." or self._peek() == ".":
            parts.append(self._next())
        return "".join(parts)

    def _number(self) -> int:
        text = self._next()
        sign = -1 if text == "-" else 1
        try:
            return sign * int(self._next() if sign < 0 else text, 0)
        except ValueError:
            raise self._wrong(text) from None

    def _options(self) -> None:
        """``[packed=true]`` and the like."""
        if self._peek() == "[":
            depth = 0
            while True:
                depth += {"[": 1, "]": -1}.get(self._next(), 0)
                if not depth:
                    return

    def _pass_over(self) -> None:
        """To the end of a statement: its semicolon, or the end of its block."""
        depth = 0
        while True:
            word = self._next()
            depth += {"{": 1, "}": -1}.get(word, 0)
            if depth <= 0 and (word == ";" or (word == "}" and self._peek() != ";")):
                return

    def _wrong(self, token: str) -> DeserializationError:
        return DeserializationError(f"the schema is no Protobuf that is read here: {token!r:.60}")


def _unquoted(token: str) -> str:
    return token[1:-1]


def _entry_name(field: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def _set_type(field: descriptor_pb2.FieldDescriptorProto, of: str) -> None:
    scalar = _SCALARS.get(of)
    if scalar is None:
        field.type_name = of
    else:
        field.type = scalar


def names_in(file: descriptor_pb2.FileDescriptorProto) -> dict[str, bool]:
    """Full names of the types in a file, and whether they are messages."""
    return dict(_names(file.package, file.message_type, file.enum_type))


def _names(
    scope: str,
    messages: Iterable[descriptor_pb2.DescriptorProto],
    enums: Iterable[descriptor_pb2.EnumDescriptorProto],
) -> Iterator[tuple[str, bool]]:
    for enum in enums:
        yield f"{scope}.{enum.name}".lstrip("."), False
    for message in messages:
        name = f"{scope}.{message.name}".lstrip(".")
        yield name, True
        yield from _names(name, message.nested_type, message.enum_type)


def resolve(file: descriptor_pb2.FileDescriptorProto, known: Mapping[str, bool]) -> None:
    """Give the fields the full names of their types, of which ``known`` has all. Raises ``DeserializationError``."""
    for message in file.message_type:
        _resolve(message, f"{file.package}.{message.name}".lstrip("."), known)


def _resolve(message: descriptor_pb2.DescriptorProto, scope: str, known: Mapping[str, bool]) -> None:
    for field in message.field:
        if field.type_name:
            name = _found(field.type_name, scope, known)
            field.type = _Field.TYPE_MESSAGE if known[name] else _Field.TYPE_ENUM
            field.type_name = f".{name}"
    for nested in message.nested_type:
        _resolve(nested, f"{scope}.{nested.name}", known)


def _found(name: str, scope: str, known: Mapping[str, bool]) -> str:
    """The full name of a type: of the innermost scope that has it."""
    if name.startswith("."):
        scope, name = "", name[1:]
    while True:
        full = f"{scope}.{name}".lstrip(".")
        if full in known:
            return full
        if not scope:
            raise DeserializationError(f"the schema has no type {name!r:.100}, and imports none")
        scope = scope.rpartition(".")[0]
