"""The slots of all partitions at one node: deltas, the frontier, completed windows."""
