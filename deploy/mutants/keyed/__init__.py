"""Bugs in keyed state."""
