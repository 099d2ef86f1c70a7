"""The results of the compiled walk over record batches: a table of columns of int64, and a row of findings."""

OFFSET, STAMP, START, END, KEY_START, KEY_END, HEADER_START, HEADER_END, WIDTH = range(9)
"""Columns, one after the other. Places are counted from the buffer's start; -1 where there is no key, and two equal
ones where there is no header. Those from ``KEY_START`` on are only filled on request."""
SIZE, HEADERS_START, RECORD_END, HEADERS, WHOLE = range(WIDTH, WIDTH + 5)
"""Columns for a walk over all of them: bytes of the value (-1: it is null), where the headers of all names begin
and the record ends, and how many headers there are."""
NARROW = KEY_START
"""How many columns there are otherwise."""
ROWS, NEXT, STATUS, EPOCH, BESIDE, AT, FOUND = range(7)
"""Findings: rows, the offset to go on at, one of those below, the leader's epoch of the last batch (-1: none was
walked), what some record has (the two below), where in the buffer the walk has ended."""
SOME_BESIDE, SOME_NULL = 1, 2
"""A record with a key or a header; one whose value is null."""
DONE, OTHER_MAGIC, DAMAGED, COMPRESSED, BROKEN = range(5)
"""How a walk ends: at the end (of what is there: the last batch may not be whole), or before a batch that it does not
know, whose checksum is wrong, that is compressed, or that is none."""
HEAD_BYTES = 61
"""Of a batch of magic 2."""
LEAST_RECORD_BYTES = 7
