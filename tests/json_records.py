"""Random msgspec Structs, and random records of them: valid, odd, and broken. The same seed draws the same."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import random
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Union

import msgspec

Write = Callable[[random.Random], str]


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Level(enum.IntEnum):
    LOW = -2
    HIGH = 1


class Found(enum.Enum):
    A = "a"

    @classmethod
    def _missing_(cls, value: object) -> Found | None:
        return cls.A if value == "b" else None


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Checked(msgspec.Struct):
    amount: int

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("negative")


_NAMES = (
    "id",
    "user_id",
    "a",
    "the_name_of_the_item_that_was_sold",
    "größe",
    "value",
    "valu",
    "at",
    "数",
    "x_y_z",
    "type",
)
_TEXTS = ("", "a", "some text", "seventeen letters", "Zürich", "数据流", "😀 and 😀", 'a "quoted" one', "back\\slash",
          "line\nand\ttab", "\x7f", "\u2028", "nul\x00", "a" * 40 + "é" + "b" * 40)  # fmt: skip
_NUMBERS = (
    *("0", "-0", "1", "-1", "12", "00", "01", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("-9223372036854775809", "18446744073709551616", "9" * 19, "9" * 25, "1.0", "1.5", "-0.0", "0.1", "1e5", "1E5"),
    *("1e-5", "1e+5", "1.", ".5", "1e", "1e400", "-1e400", "1e-400", "5e-324", "2.2250738585072014e-308"),
    *("1.7976931348623157e308", "1.7976931348623159e308", "9007199254740993", "9007199254740993.0"),
    *("0.30000000000000004", "123456789012345678901234567890.5", "0.000000000000000000000000000001", "-", "+1"),
    *("1_000", "NaN", "Infinity"),
)
_DECIMALS = (" 1.5", "+1.5", "1_0", ".5", "5.", "007.50", "-0.00", "\u0661", "Infinity", "sNaN", "1e-400", "1.5\\u0030",
             "0E-18", "0E-19", "9223372036854775807", "-9223372036854775808", "1.000000000000000000")  # fmt: skip
_OTHERS = ("null", "true", "false", "nul", "True", "[]", "{}", "[1,2]", '{"a":[{"b":null}]}', "[1,]", "{,}", '{"a"}',
           '{"a":1 "b":2}', "[" * 70 + "]" * 70, '"\\ud800"', '"\\ud83d\\ude00"', '"\\udc00"', '"\\u00e9\\n"', '"\\x"',
           '"', '"\x01"', "")  # fmt: skip


def an_integer(draw: random.Random) -> str:
    return str(
        draw.choice((0, 1, -1, 7, 10**12, -(10**18), draw.getrandbits(draw.randrange(1, 64)), 1_753_000_000_123))
    )


def a_float(draw: random.Random) -> str:
    kind = draw.randrange(6)
    if kind == 0:
        return repr(draw.uniform(-180, 180))
    if kind == 1:
        return repr(draw.random() * 10.0 ** draw.randrange(-320, 309))
    if kind == 2:
        return f"{draw.randrange(10**5)}.{draw.randrange(100):02}"
    if kind == 3:
        return f"{draw.getrandbits(63)}e{draw.randrange(-330, 310)}"
    if kind == 4:
        return f"-{draw.randrange(10**9)}.{draw.getrandbits(40)}"
    return an_integer(draw)


def a_decimal(draw: random.Random) -> str:
    kind = draw.randrange(8)
    if kind == 0:
        return draw.choice(_NUMBERS)
    if kind == 1:
        return f'"{draw.choice((*_NUMBERS, *_DECIMALS))}"'
    number = f"{draw.choice(('', '', '-'))}{draw.getrandbits(draw.randrange(1, 60))}"
    if kind > 2:
        number += f".{draw.randrange(10**6):0{draw.randrange(1, 7)}}"
    if kind == 3:
        number += f"{draw.choice('eE')}{draw.choice(('', '+', '-'))}{draw.randrange(30)}"
    return number if kind % 2 else f'"{number}"'


def a_time(draw: random.Random) -> str:
    """A time as ISO 8601 writes it, mostly; without quotation marks."""
    moment = datetime.datetime(1, 1, 1) + datetime.timedelta(microseconds=draw.randrange(315_537_897_599_999_999))
    if draw.random() < 0.3:
        moment = draw.choice((moment.min, moment.max, datetime.datetime(2024, 2, 29), datetime.datetime(1969, 12, 31)))
    text = moment.isoformat(draw.choice("TTTT t"), "seconds")
    if draw.random() < 0.7:
        text += "." + "".join(draw.choice("0123456789999") for _ in range(draw.choice((1, 2, 3, 6, 7, 9, 12))))
    hour, minute = draw.randrange(24), draw.randrange(60)
    signed = f"{draw.choice('+-')}{hour:02}"
    text += draw.choice(
        ("Z", "Z", "", "z", "+00:00", "-00:00", f"{signed}:{minute:02}", f"{signed}{minute:02}", signed)
    )
    if draw.random() < 0.1:
        at = draw.randrange(len(text))
        text = (
            text[:at] + draw.choice(("", "0", "9", "-", ":", " ", "T", ".", "é", "60")) + text[at + draw.randrange(2) :]
        )
    return text


def a_text(draw: random.Random) -> str:
    text = draw.choice(_TEXTS)
    written = json.dumps(text, ensure_ascii=draw.random() < 0.3)
    return written.replace("/", "\\/")


def a_bool(draw: random.Random) -> str:
    return draw.choice(("true", "false"))


def _list_of(each: Write) -> Write:
    def write(draw: random.Random) -> str:
        items = [each(draw) for _ in range(draw.randrange(4))]
        if draw.random() < 0.02:
            items.append(draw.choice((*_NUMBERS, *_OTHERS)))
        blank = draw.choice(("", "", " ", "\n "))
        return f"[{blank}" + f"{blank},{blank}".join(items) + f"{blank}]"

    return write


def _one_of(*values: str) -> Write:
    return lambda draw: draw.choice(values)


_SCALARS: tuple[tuple[Any, Write], ...] = (
    (int, an_integer),
    (float, a_float),
    (bool, a_bool),
    (str, a_text),
    (Annotated[int, msgspec.Meta(ge=0)], an_integer),
    (Annotated[int, msgspec.Meta(gt=-5, lt=10**15)], an_integer),
    (Annotated[int, msgspec.Meta(multiple_of=2)], an_integer),
    (Annotated[float, msgspec.Meta(ge=-90.0, le=90.0)], a_float),
    (Annotated[str, msgspec.Meta(min_length=1, max_length=20)], a_text),
    (list[int], _list_of(an_integer)),
    (list[str], _list_of(a_text)),
    (list[float], _list_of(a_float)),
    (list[bool], _list_of(a_bool)),
    (list[int | None], _list_of(an_integer)),
    (Annotated[list[int], msgspec.Meta(max_length=2)], _list_of(an_integer)),
    (dict[str, float], lambda draw: "{" + f'"k":{a_float(draw)}' + "}"),
    (Any, lambda draw: draw.choice((an_integer, a_text, a_float))(draw)),
    (bytes, _one_of('"aGVsbG8="', '""')),
    (decimal.Decimal, a_decimal),
    (decimal.Decimal, a_decimal),
    (uuid.UUID, lambda draw: f'"{uuid.UUID(int=draw.getrandbits(128))}"'),
    (datetime.datetime, lambda draw: f'"{a_time(draw)}"'),
    (datetime.datetime, lambda draw: f'"{a_time(draw)}"'),
    (Annotated[datetime.datetime, msgspec.Meta(tz=True)], lambda draw: f'"{a_time(draw)}"'),
    (Side, _one_of('"buy"', '"sell"')),
    (Literal["a", "b"], _one_of('"a"', '"b"', '"c"', '"\\u0061"')),
    (Literal[1, 2], _one_of("1", "2", "2", "3", "1.0")),
    (Literal["a", 1], _one_of('"a"', "1", "2")),
    (Level, _one_of("1", "-2", "3")),
    (Found, _one_of('"a"', '"b"', '"c"')),
    (Cat | Dog, _one_of('{"type":"cat","lives":9}', '{"name":"Rex","type":"dog"}')),
    (Checked, _one_of('{"amount":1}', '{"amount":2}')),
    (int | str, lambda draw: draw.choice((an_integer, a_text))(draw)),
)
_TAGS = ("1", "12", "-3", "1.0", '"1"', '"cat"', '"ca"', '"c\\u0061t"', "null", "{}")
_TAGS_OF: tuple[tuple[str | int, ...], ...] = (
    *(("cat", "dog", "größe"), (1, 12, -3), ("1", "12", "-3"), ("", "a", "ab"), (2**62, -(2**63), 0)),
    ('x"y', "x", "back\\slash"),  # JSON escapes these
)
_DEFAULTS: dict[Any, Any] = {int: 5, float: 2.5, bool: True, str: "déjà"}


class Schema:
    """A Struct, and how records of it are written."""

    def __init__(self, draw: random.Random, depth: int = 0, tagged: tuple[str, str | int] | None = None) -> None:
        self.members: list[tuple[str, Write, bool]] = []
        fields: list[Any] = []
        rename = draw.choice((None, None, "camel", "upper"))
        for name in draw.sample(_NAMES[:-1], draw.randrange(0 if depth else 1, 9)):
            of, write = self._type(draw, depth)
            optional = draw.random() < 0.3
            if draw.random() < 0.2:
                of, write = of | None, _nullable(write)
            default: Any = _DEFAULTS.get(of)
            if optional and (of in _DEFAULTS or type(None) in getattr(of, "__args__", ())):
                fields.append((name, of, default))
            elif optional and getattr(of, "__origin__", None) is list:
                fields.append((name, of, msgspec.field(default_factory=list)))
            elif optional and depth == 0:
                of = of | msgspec.UnsetType
                fields.append((name, of, msgspec.UNSET))
            else:
                fields.append((name, of))
                optional = False
            self.members.append((name, write, optional))
        options: dict[str, Any] = {"rename": rename, "forbid_unknown_fields": draw.random() < 0.1}
        if tagged is None and draw.random() < 0.1:
            tagged = "type", draw.choice(("drawn", 3))
        self.tag_field, self.tag = tagged or (None, None)
        options |= {"tag": self.tag, "tag_field": self.tag_field}
        self.type = msgspec.defstruct(f"Drawn{depth}_{self.tag}", fields, kw_only=True, **options)
        encoded = {field.name: field.encode_name for field in msgspec.structs.fields(self.type)}
        self.members = [(encoded[name], write, optional) for name, write, optional in self.members]

    def _type(self, draw: random.Random, depth: int) -> tuple[Any, Write]:
        if depth < 2 and draw.random() < 0.15:
            inside = Schema(draw, depth + 1)
            return inside.type, inside.text
        if depth < 2 and draw.random() < 0.15:
            return self._union(draw, depth)
        if draw.random() < 0.1:
            return self._list(draw, depth)
        return draw.choice(_SCALARS[:4] if draw.random() < 0.6 else _SCALARS)

    def _union(self, draw: random.Random, depth: int) -> tuple[Any, Write]:
        union = UnionSchema(draw, depth + 1, _TAGS_OF[:2])
        return union.type, union.text

    def _list(self, draw: random.Random, depth: int) -> tuple[Any, Write]:
        of, write = self._type(draw, depth + (draw.random() < 0.5))
        if draw.random() < 0.2:
            of, write = of | None, _nullable(write)
        of = list[of]
        if draw.random() < 0.15:
            of = Annotated[of, msgspec.Meta(min_length=draw.randrange(2), max_length=draw.randrange(2, 4))]
        return of, _list_of(write)

    def text(self, draw: random.Random, odd: float = 0.02) -> str:
        """A record; each of its parts is odd with this probability."""
        members = list(self.members)
        if draw.random() < 0.3:
            draw.shuffle(members)
        blank = draw.choice(("", "", "", " ", "\n\t "))
        parts: list[str] = []
        for name, write, optional in members:
            if draw.random() < (0.3 if optional else odd):
                continue
            value = draw.choice((*_NUMBERS, *_OTHERS)) if draw.random() < odd else write(draw)
            quoted = json.dumps(name, ensure_ascii=draw.random() < odd)
            parts.append(f"{quoted}{blank}:{blank}{value}")
        if draw.random() < 0.2:
            value = draw.choice((*_NUMBERS, *_OTHERS)) if draw.random() < 0.3 else '{"a":[1.5,"\\u00e9",{}],"b":null}'
            parts.insert(draw.randrange(len(parts) + 1), f"{json.dumps('other ' + draw.choice(_NAMES))}:{value}")
        if self.tag is not None and draw.random() >= odd:
            tag = draw.choice(_TAGS) if draw.random() < odd else json.dumps(self.tag, ensure_ascii=draw.random() < odd)
            at = 0 if draw.random() < 0.7 else draw.randrange(len(parts) + 1)
            parts.insert(at, f'"{self.tag_field}"{blank}:{blank}{tag}')
        if parts and draw.random() < odd:
            parts.append(draw.choice(parts))
        return "{" + f"{blank},".join(parts) + blank + "}"

    def record(self, draw: random.Random) -> bytes:
        """A record as bytes, sometimes damaged."""
        return _damaged(draw, self.text(draw, 0.0 if draw.random() < 0.6 else 0.05))


class UnionSchema:
    """A union of Structs with tags, and how records of it are written."""

    def __init__(self, draw: random.Random, depth: int = 0, tags: Sequence[tuple[str | int, ...]] = _TAGS_OF) -> None:
        tag_field = draw.choice(("type", "kind"))
        chosen = draw.choice(tags)[: draw.randrange(2, 4)]
        self.members = [Schema(draw, depth, (tag_field, tag)) for tag in chosen]
        self.type: Any = Union[tuple(member.type for member in self.members)]  # noqa: UP007

    def text(self, draw: random.Random, odd: float = 0.02) -> str:
        """An object of one of the Structs."""
        return draw.choice(self.members).text(draw, odd)

    def record(self, draw: random.Random) -> bytes:
        """A record as bytes, sometimes damaged, of another Struct, or of none."""
        kind = draw.random()
        if kind < 0.02:
            return draw.choice((*_NUMBERS, *_OTHERS)).encode()
        odd = 0.0 if draw.random() < 0.6 else 0.05
        if kind < 0.05:  # the tag of one, and the fields of another
            one, other = draw.choices(self.members, k=2)
            text = f'{{"{one.tag_field}":{json.dumps(one.tag)},{other.text(draw, odd).lstrip("{ ")}'
            return _damaged(draw, text)
        return _damaged(draw, self.text(draw, odd))


def _damaged(draw: random.Random, text: str) -> bytes:
    data = text.encode()
    if draw.random() < 0.1 and data:
        at = draw.randrange(len(data))
        patch = draw.choice(
            (b"", b'"', b"\\", b"{", b"}", b"[", b",", b":", b"0", b"\xff", b"\xc3", b"\xed\xa0\x80", b" ")
        )
        data = data[:at] + patch + data[at + draw.randrange(3) :]
    return data


def _nullable(write: Write) -> Write:
    return lambda draw: "null" if draw.random() < 0.3 else write(draw)
