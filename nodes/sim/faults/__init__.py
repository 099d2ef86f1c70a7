"""Faults that a simulated run draws: of the log, of nodes, of their load."""
