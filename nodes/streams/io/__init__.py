"""Effects that the driver performs for the machine: writes, reads, fetches, checkpoints of partitions."""
