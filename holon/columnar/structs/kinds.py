"""The kinds of fields that the loop reads, and the marks that it leaves."""

INTEGER, FLOAT, BOOL, TEXT, SPAN, OBJECT, TAG, DECIMAL, TIME, LIST, UNION, MEMBER, MEMBER_TAG, VALUES = range(14)
"""A span is the bytes of any value, for msgspec; an object is a Struct with fields of its own; a tag is a text that has
to be a certain one; a decimal is a mantissa and an exponent, a time are microseconds and a zone; the items of a list
are rows of a table of their own; a union is a Struct of several, by its tag. A member and
its tag are columns that the reader makes of a union. The last one is what the loop calls a list of values that are no
containers."""

LOCAL = 1 << 20
"""The zone of a time without one; other zones are minutes east of UTC."""

MISSING, PRESENT, NULL = 0, 1, 2
"""Marks of fields that may be missing or null."""

FITS, MISFIT = 1, 0
"""Whether a record was read as a whole; where it was not, the values in its columns mean nothing."""

FIELD, STRUCT, TABLE, FRAME = 11, 5, 3, 8
"""Numbers of a field, a Struct and a table of rows in the tables of the loop, and those of an open container."""
MAX_OPEN = 16
"""Containers inside of one another, with what is around the record."""
