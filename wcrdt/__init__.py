"""Windowed CRDTs: lattices, windows and the laws that they keep. Pure: no I/O, clock, thread or randomness."""
