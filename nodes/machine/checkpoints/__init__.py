"""Which checkpoints of a partition are whole, and which hold what has changed since others; pure."""
