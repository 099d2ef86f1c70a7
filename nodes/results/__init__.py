"""Readers of a job's outputs: the reader that drops duplicates, views of results, dead letters."""
