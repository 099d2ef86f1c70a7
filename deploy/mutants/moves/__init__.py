"""Planted bugs in moves of keys between partitions. Those of other rooms are elsewhere."""
