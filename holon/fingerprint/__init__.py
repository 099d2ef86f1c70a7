"""The code, values and state types that results follow from, and their record on a job's log."""
