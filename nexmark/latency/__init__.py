"""Latency of results at a steady rate, with and without nodes that are killed."""
