"""Loops over items of a row, and what is reduced of them: one row of items for each turn of a loop."""
