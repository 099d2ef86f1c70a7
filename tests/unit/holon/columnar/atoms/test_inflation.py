"""Compressed buffers of Arrow record batches: the bytes that they claim to inflate to, and too many of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holon.arrow import ArrowColumns
from holon.columnar.atoms.inflation import INFLATED_BYTES, inflated_bytes
from tests.unit.holon.formats.arrow_arrays import dictionary, stream


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("several", [False, True])
def test_a_record_that_claims_to_inflate_to_gigabytes_is_a_letter(compression: str, several: bool) -> None:
    rows = pa.record_batch(
        {"x": pa.array([7] * 1_000), "y": dictionary(["a"] * 999 + ["b"]) if several else pa.array([1] * 1_000)}
    )
    record = stream(*[rows] * (2 if several else 1), compression=compression)
    form = ArrowColumns({"x": int})
    assert form.events_in(record) == (2_000 if several else 1_000)
    plain = (8_000).to_bytes(8, "little")
    assert plain in record
    for claimed in (INFLATED_BYTES + 1, 1 << 40, (1 << 63) - 1):
        ((index, reason),) = form.decode([record.replace(plain, claimed.to_bytes(8, "little"))]).bad
        assert index == 0 and f"{INFLATED_BYTES} may be" in reason


def test_the_bytes_that_a_record_inflates_to_are_those_of_its_buffers() -> None:
    rows = pa.record_batch(
        {"x": pa.array(range(1_000)), "y": dictionary(["a", "b"] * 500), "z": pa.array([None, "zz"] * 500)}
    )
    for compression in ("zstd", "lz4", None):
        messages = pa.ipc.MessageReader.open_stream(stream(rows, compression=compression))
        found = {message.type: inflated_bytes(message) for message in messages}
        kept = 8_000 + 4_000 + 125 + 4_004 + 1_000  # numbers, indices, which are null, places and bytes of texts
        assert found["schema"] == 0 and found["record batch"] == (kept if compression else 0)
        assert found["dictionary"] == (12 + 2 if compression else 0)
