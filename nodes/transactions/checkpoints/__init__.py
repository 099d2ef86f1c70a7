"""Checkpoints of state partitions: chains of files, when they are due, merging; and state on disk."""
