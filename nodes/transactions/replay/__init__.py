"""Runs the log of a transactional job again and compares; that of streams is in ``nodes.replay``."""
