"""Sums, averages, variances and lines that neither order nor partitions change, floats included."""
