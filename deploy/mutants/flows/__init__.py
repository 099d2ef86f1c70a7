"""Bugs in flows, a file for each of their parts that has grown: none of jobs that are written by hand."""
