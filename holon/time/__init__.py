"""Event times of runs of records, and the units that they may come in."""
