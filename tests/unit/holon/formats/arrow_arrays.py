"""Arrays and streams of Arrow that tests of its formats read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def dictionary(values: list[Any], kind: Any = None, index: Any = None, ordered: bool = False) -> Any:
    """The values as indices into a dictionary of them."""
    distinct = list(dict.fromkeys(value for value in values if value is not None))
    places = pa.array([None if value is None else distinct.index(value) for value in values], index or pa.int32())
    return pa.DictionaryArray.from_arrays(places, pa.array(distinct, kind), ordered=ordered)


def runs(ends: list[int], values: list[Any], kind: Any = None) -> Any:
    """Each value up to its end."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind or pa.int32()), pa.array(values))


def extension(kind: Any, storage: Any) -> Any:
    """An array of an extension type."""
    return pa.ExtensionArray.from_storage(kind, storage)


def stream(*batches: Any, schema: Any = None, **options: Any) -> bytes:
    """A record of any number of batches."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema or batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
