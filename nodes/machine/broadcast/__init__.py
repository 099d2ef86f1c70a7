"""Deltas of windowed state between nodes: sent, requested again, merged, forgotten; pure."""
