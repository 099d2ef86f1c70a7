"""Runs a streaming job twice over the same input and compares; that of transactions is in ``transactions.replay``."""
