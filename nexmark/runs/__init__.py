"""Benchmark runs: fill a topic, start a fleet, kill nodes, read the results, prove them."""
