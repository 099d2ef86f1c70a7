"""The simulator: the real node and driver on a log in memory, with a virtual clock and faults drawn from one seed."""
