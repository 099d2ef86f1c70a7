"""Outputs as files: batches that are committed once, their formats, folders and stores. Reading outputs is not here."""
