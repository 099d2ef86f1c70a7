"""Messages on the log: what was written is read, and nothing else is."""

from __future__ import annotations

import struct
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine import messages as m
from nodes.machine.messages import BadMessage, BadReason, decode_broadcast, decode_control, encode
from wcrdt.replica.replica import Punctuation, SlotDelta
from wcrdt.replica.slots import TrackDelta, WindowChange
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

CONTROL: list[m.ControlMessage] = [
    m.JobStarted(0, "abc", 4, {"query": "q7"}),
    m.Hello(1, "node-1", 1),
    m.Heartbeat(1, "node-1", 17, {0: 100, 3: 2**62}, {"events_per_s": 1.5}),
    m.Goodbye(1, "node-1"),
    m.Claim(1, "node-1", 3, 2),
    m.Release(1, "node-1", 3, 2, "node-2"),
    m.Release(1, "node-1", 3, 2),
    m.CheckpointSaved(1, "node-1", 3, 2, "q7/1/00003/x.ckpt", 100, END_OF_TIME_MS, BEFORE_TIME_MS, 1, True, 2),
    m.SlotWanted(1, "node-2", 3, 99, 1),
    m.EndOfInput(1, 3, 100),
    m.Failed(1, "node-1", 3, 42, "c0de", "ValueError: no"),
    m.SchemasFound(1, "node-1", 3, 0, [1, 2**32 - 1], 100),
    m.Command(1, "stop"),
]
TRACK = TrackDelta((0, 0), (10, 2), 5_000, [WindowChange("highest", 0, 10_000, [7, [1, 2]])])
BROADCAST: list[m.BroadcastMessage] = [
    m.SlotSent(0, SlotDelta(3, 1, TRACK, None)),
    m.SlotSent(0, SlotDelta(3, 1, None, TRACK, [Punctuation(3, (4, 0), 1_000)])),
    m.PunctuationSent(2, Punctuation(3, (10, 2), 6_000)),
]


def envelope(payload: bytes, version: int = m.FORMAT_VERSION) -> bytes:
    return struct.pack(">BI", version, zlib.crc32(payload, zlib.crc32(bytes([version])))) + payload


def enveloped(*fields: object) -> bytes:
    return envelope(msgspec.msgpack.encode(fields))


def refused(data: bytes, decode=decode_control) -> BadReason:
    with pytest.raises(BadMessage) as caught:
        decode(data)
    return caught.value.reason


@pytest.mark.parametrize("message", CONTROL, ids=lambda message: type(message).__name__)
def test_a_control_message_is_read_as_it_was_written(message: m.ControlMessage) -> None:
    assert decode_control(encode(message)) == message


@pytest.mark.parametrize("message", BROADCAST, ids=lambda message: type(message).__name__)
def test_a_broadcast_message_is_read_as_it_was_written(message: m.BroadcastMessage) -> None:
    read = decode_broadcast(encode(message))
    assert read == message
    assert isinstance(read, type(message))


def test_the_bytes_of_version_1_never_change() -> None:
    assert encode(m.Claim(1, "n", 3, 2)).hex() == "01dfeb874095a5636c61696d01a16e0302"
    assert decode_control(bytes.fromhex("01dfeb874095a5636c61696d01a16e0302")) == m.Claim(1, "n", 3, 2)


def test_only_what_older_releases_would_get_wrong_is_written_in_a_newer_version() -> None:
    saved = m.CheckpointSaved(1, "n", 3, 2, "name", 1, 2, 3, counts=(1, 0, 0, 0))
    repeated = msgspec.structs.replace(saved, counts=(1, 0, 0, 0, 9))
    started = m.JobStarted(0, "f", 1, {"run": "{}"})
    named = msgspec.structs.replace(started, description={"run": "{}", m.UPSTREAM: "{}"})
    assert [encode(message)[0] for message in (saved, started, repeated, named)] == [1, 1, 2, 2]
    assert [decode_control(encode(message)) for message in (repeated, named)] == [repeated, named]
    assert refused(enveloped(*msgspec.to_builtins(repeated)[:-1], [1, 2, 3])) is BadReason.MALFORMED


@pytest.mark.parametrize("message", [*CONTROL, *BROADCAST], ids=lambda message: type(message).__name__)
def test_any_flipped_bit_is_found_and_never_taken_for_a_newer_version(message) -> None:
    data = encode(message)
    decode = decode_broadcast if message in BROADCAST else decode_control
    for bit in range(8 * len(data)):
        torn = bytearray(data)
        torn[bit // 8] ^= 1 << bit % 8
        assert refused(bytes(torn), decode) is BadReason.CRC


@pytest.mark.parametrize("message", CONTROL, ids=lambda message: type(message).__name__)
def test_a_cut_off_message_is_found(message: m.ControlMessage) -> None:
    data = encode(message)
    for length in range(len(data)):
        assert refused(data[:length]) is (BadReason.TOO_SHORT if length < 5 else BadReason.CRC)


def test_an_intact_message_of_a_newer_version_is_told_from_a_damaged_one() -> None:
    payload = encode(CONTROL[1])[5:]
    assert refused(envelope(payload, m.FORMAT_VERSION + 1)) is BadReason.NEWER_VERSION
    assert refused(encode(CONTROL[1]) + b"x") is BadReason.CRC


@pytest.mark.parametrize(
    "fields",
    [
        ("nonsense", 0),
        ("hello", 0, "node", 1, "one field more"),
        ("hello", 0),
        ("hello", -1, "node", 1),
        ("hello", 2**32, "node", 1),
        ("hello", 0, "", 1),
        ("hello", 0, 7, 1),
        ("claim", 0, "node", -1, 1),
        ("claim", 0, "node", m.MAX_PARTITIONS, 1),
        ("claim", 0, "node", 0, 0),
        ("claim", 0, "node", 0, True),
        ("job", 0, "fingerprint", 2**40, {}),
        ("job", 0, "fingerprint", 0, {}),
        ("end", 0, 0, -5),
        ("schemas", 0, "node", 0, 0, [2**32], 0),
        ("slot", 0, [0, 0, None, None, []]),
        (),
    ],
)
def test_what_no_encoder_writes_is_malformed(fields: tuple[object, ...]) -> None:
    assert refused(enveloped(*fields)) is BadReason.MALFORMED


def test_bytes_behind_the_payload_are_malformed() -> None:
    assert refused(envelope(msgspec.msgpack.encode(("bye", 0, "node")) + b"\0")) is BadReason.MALFORMED


def test_a_control_message_is_no_broadcast_message_nor_the_other_way_round() -> None:
    assert refused(encode(CONTROL[0]), decode_broadcast) is BadReason.MALFORMED
    assert refused(encode(BROADCAST[0]), decode_control) is BadReason.MALFORMED


def test_a_value_of_100000_nested_lists_is_malformed_and_no_crash() -> None:
    data = msgspec.msgpack.encode(("slot", 0, [0, 0, [[0, 0], [1, 0], 5, [["state", 0, 1, "HERE"]]], None]))
    data = data.replace(b"\xa4HERE", b"\x91" * 100_000 + b"\xc0")
    assert refused(envelope(data), decode_broadcast) is BadReason.MALFORMED


def test_an_array_that_claims_four_billion_elements_is_malformed() -> None:
    assert refused(envelope(b"\xdd\xff\xff\xff\xff")) is BadReason.MALFORMED


def test_a_message_above_the_limit_is_refused_on_both_sides() -> None:
    with pytest.raises(BadMessage, match="Failed of 104"):
        encode(m.Failed(0, "node", 0, 0, "c0de", "x" * m.MAX_CONTROL_BYTES))
    assert refused(bytes(m.MAX_CONTROL_BYTES + 1)) is BadReason.TOO_LARGE
    largest = m.MAX_CONTROL_BYTES - len(encode(m.Failed(0, "node", 0, 0, "c0de", ""))) - 4
    assert isinstance(decode_control(encode(m.Failed(0, "node", 0, 0, "c0de", "x" * largest))), m.Failed)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_bad_message_only(payload: bytes) -> None:
    for data in (payload, envelope(payload)):
        for decode in (decode_control, decode_broadcast):
            try:
                assert decode(data) is not None
            except BadMessage as error:
                assert isinstance(error.reason, BadReason)


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(max_size=9)
    | st.floats()
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
tags = st.sampled_from([type(message).__struct_config__.tag for message in [*CONTROL, *BROADCAST]])


@pytest.mark.slow
@given(tags, st.lists(json_like, max_size=7))
def test_arbitrary_fields_behind_a_known_tag_are_a_message_or_a_bad_one(tag: str, fields: list[object]) -> None:
    for decode in (decode_control, decode_broadcast):
        try:
            message = decode(enveloped(tag, *fields))
        except BadMessage:
            continue
        assert type(message).__struct_config__.tag == tag
