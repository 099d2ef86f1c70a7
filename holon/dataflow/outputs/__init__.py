"""Rows that leave a pipeline for an output."""
