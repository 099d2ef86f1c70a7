"""Transactions on the log: functions, epochs, commit, snapshots and migration, as a pure protocol."""
