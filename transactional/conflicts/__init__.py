"""Which transactions of an epoch are valid, which run again, and how partitions agree on it."""
