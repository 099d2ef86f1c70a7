"""A user's own job in the simulation: its records, the drawn faults, and one plain pass that gives right results."""
