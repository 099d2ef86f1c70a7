"""Committed state of a state partition: in memory, spilled, in snapshots, and as bytes."""
