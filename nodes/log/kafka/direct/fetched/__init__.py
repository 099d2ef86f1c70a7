"""Fetched batches before the compiled walk: made plain, or left out. Requests and connections do not belong here."""
