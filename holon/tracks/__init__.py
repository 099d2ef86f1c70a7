"""The parts that run in one partition: the record track, the window track, and the task that joins them."""
