"""Rows kept whole, by columns. What folds rows to less has a family of its own."""
