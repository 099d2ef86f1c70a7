"""Leaves of what has any number of members a key: sets, and members that are counted. Not maxima, sums or ranks."""
