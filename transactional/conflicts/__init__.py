"""Which transactions of an epoch stand, which run again, and how partitions agree on it."""
