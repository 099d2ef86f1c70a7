"""Checksums and compression as compiled loops, shared by the logs; no connection, no file."""
