"""A simulated job with much state by key, checkpoints of it in parts, and the results that are expected."""
