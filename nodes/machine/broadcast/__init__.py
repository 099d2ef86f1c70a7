"""Deltas of windowed state between nodes: sent, asked for again, merged, forgotten; pure."""
