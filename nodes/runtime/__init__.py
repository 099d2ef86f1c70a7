"""The parts that every node process needs, whatever its kind of job: start, end, signals, watchdog, child processes."""
