"""The codec: one encoding for each value, and a reason for everything that is not one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcrdt import (
    DecodeError,
    GCounter,
    GSet,
    Lattice,
    MapOf,
    Max,
    Min,
    ORSet,
    Sum,
    ThetaSketch,
    TopK,
    YText,
    decode,
    encode,
)
from wcrdt.codec import FORMAT_VERSION, element_from_wire, element_to_wire

pack = msgspec.msgpack.encode


def sample() -> MapOf:
    value = MapOf(TopK(2))
    value.insert_many((["a", "b"], [(1, 2**70), (0.5, (None, b"x"))]))
    return value


def test_the_bytes_are_these():
    """A golden value: if it fails, the format changed and FORMAT_VERSION must rise."""
    head = "94 01 a36d6170 92 a4746f706b 92 02 01 92"
    entry_a = "92 a161 91 92 01 92 01 c409 400000000000000000"
    entry_b = "92 a162 91 92 92 04 cb3fe0000000000000 93 00 c0 c40178"
    assert encode(sample()) == bytes.fromhex(head + entry_a + entry_b)


def test_the_envelope_names_version_type_and_shape():
    assert msgspec.msgpack.decode(encode(sample()))[:3] == [FORMAT_VERSION, "map", ["topk", [2, 1]]]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a max value"),
        (b"\xc1", "not a max value"),
        (pack([1, "max", None, 5])[:-1], "not a max value"),
        (pack([1, "max", None, 5]) + b"\x00", "not a max value"),
        (pack(5), "format version"),
        (pack([]), "format version"),
        (pack([True, "max", None, 5]), "format version"),
        (pack([FORMAT_VERSION + 1, "x"]), "newer"),
        (pack([0, "max", None, 5]), "unknown"),
        (pack([1, "max", None]), "canonical"),
        (pack([1, "max", None, 5, 5]), "canonical"),
        (pack([1, "min", None, 5]), "expected a max value, found 'min'"),
        (pack([1, "max", 0, 5]), "shape"),
        (pack([1, "max", None, {"a": 1}]), "element"),
        (pack([1, "max", None, 1.5]), "element"),
        (pack([1, "max", None, True]), "element"),
        (b"\x94\x01\xa3max\xc0\xcc\x05", "canonical"),  # 5 in two bytes
        (b"\x94\x01\xa3max\xc0\xd9\x01a", "canonical"),  # "a" with a long length
        (b"\x94\x01\xa3max\xc0\xa1\xff", "not a max value"),  # not UTF-8
        (b"\x94\x01\xa3max\xc0\xd4\x01\x00", "element"),  # an extension
        (b"\x94\x01\xa3max\xc0" + b"\x91" * 5000 + b"\x00", "not a max value"),
    ],
)
def test_what_is_no_value_is_refused_with_a_reason(data, reason):
    with pytest.raises(DecodeError, match=reason):
        decode(data, Max())


def test_the_shape_must_be_that_of_the_expected_value():
    with pytest.raises(DecodeError, match="shape"):
        decode(encode(MapOf(Max())), MapOf(Min()))
    with pytest.raises(DecodeError, match="shape"):
        decode(encode(TopK(2)), TopK(3))
    assert decode(encode(TopK(2)), TopK(2)) == TopK(2)


@pytest.mark.parametrize(
    ("wire", "like"),
    [
        ([[0, 0]], GCounter()),
        ([[0, -1]], GCounter()),
        ([[1, 1], [0, 1]], GCounter()),
        ([[0, 1], [0, 1]], GCounter()),
        ([["a", 1]], GCounter()),
        ([[0, 1, 1]], GCounter()),
        ([[0, [2, 0, 1], 0]], Sum()),
        ([2, 1], GSet()),
        ([1, 1], GSet()),
        ([[1, 5]], GSet()),
        ([[1, b"\x05"]], GSet()),
        ([[1, b"\x00" * 9 + b"\x01"]], GSet()),
        ([[1, b"\x00\x01" + bytes(8)]], GSet()),
        ([[2, -1, 10]], GSet()),
        ([[2, 7000, 1]], GSet()),
        ([[2, 1, 0]], GSet()),
        ([[3, 2]], GSet()),
        ([[4, 1]], GSet()),
        ([[4, -0.0]], GSet()),
        ([[4, float("nan")]], GSet()),
        ([[5, 1]], GSet()),
        ([[]], GSet()),
        ([[[3, 1], 1]], MapOf(Max())),
        ([[1, 1], [1, 1]], MapOf(Max())),
        ([[1, 1, 1]], MapOf(Max())),
        ([[["x", []]], [], []], ORSet()),
        ([[["x", [[0, 1]]]], [], []], ORSet()),
        ([[], [], [[0, 1]]], ORSet()),
        ([[["x", [[0, 1]]], ["y", [[0, 1]]]], [[0, 1]], []], ORSet()),
        ([[1, 2], [2, 1]], TopK(2)),
        ([[3, 1], [2, 2], [1, 3]], TopK(2)),
        ([[None, 1]], TopK(2)),
        (b"\x01", ThetaSketch()),
        ([[0, [[0, [b"\xff\xff"]]]]], YText()),
        ([[0, []]], YText()),
        ([[0, [[0, []]]]], YText()),
        ([[0, [[1, [b"\x00\x00"]], [2, [b"\x00\x00"]]]]], YText()),
    ],
)
def test_a_wire_that_no_value_writes_is_refused(wire, like: Lattice):
    with pytest.raises(DecodeError):
        like.from_wire(wire)


def test_too_deep_a_tuple_is_refused():
    wire: list = [0]
    for _ in range(16):
        wire = [0, wire]
    with pytest.raises(DecodeError, match="nested deeper"):
        element_from_wire(wire)
    assert element_to_wire(element_from_wire(wire[1])) == wire[1]


@given(st.binary(max_size=40))
def test_random_bytes_are_refused_or_are_the_value_that_they_encode(data):
    try:
        value = decode(data, MapOf(GSet()))
    except DecodeError:
        return
    assert encode(value) == data


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_one_damaged_byte_is_refused_or_gives_another_value(place, byte):
    whole = encode(sample())
    data = bytearray(whole)
    data[place % len(data)] = byte
    try:
        value = decode(bytes(data), sample())
    except DecodeError:
        return
    assert encode(value) == data


def test_a_foreign_type_may_fail_in_its_own_way_and_still_gives_a_decode_error():
    class Careless(Max):
        __slots__ = ()

        def from_wire(self, wire):
            return super().from_wire(wire["no such"])

    with pytest.raises(DecodeError, match="not a max value"):
        decode(encode(Careless()), Careless())


def test_huge_numbers_survive():
    total = Sum()
    total.insert(10**6000)
    assert decode(encode(total), Sum()).value == 10**6000
