"""A processing function taken apart: its states, handles and handlers, what they may touch, what is undone."""
