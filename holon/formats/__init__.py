"""Bytes of records to events or batches of events."""
