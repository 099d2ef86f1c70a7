"""Flows that join streams within windows, for the simulation: the flow, its cases, and its results in plain Python."""
