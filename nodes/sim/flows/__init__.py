"""The simulated jobs that are written as flows, and their results in plain Python."""
