"""Functions of single records, followed: what ``process`` does with a batch of them, by columns."""
