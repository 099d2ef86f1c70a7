"""Where the processor time of a job goes, without a fleet."""
