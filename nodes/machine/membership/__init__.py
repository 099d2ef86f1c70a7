"""Which nodes are there and keep pace: heartbeats, failure detection; pure."""
