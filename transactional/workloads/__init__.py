"""Workloads with their invariants: programs, and requests as functions of seed and number."""
