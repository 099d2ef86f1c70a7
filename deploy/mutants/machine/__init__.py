"""Bugs in the node as a state machine."""
