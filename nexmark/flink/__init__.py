"""The Flink peer: its jars, its processes, its SQL."""
