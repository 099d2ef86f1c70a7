"""Columns of times and durations as numbers: how they are read and compared. Functions of one time are not here."""
