"""Simulated flows with windows that are driven by data, and their results in plain Python."""
