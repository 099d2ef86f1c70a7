"""Damage to an embedded log by power failures, full disks and stopped processes: noticed, named, read around."""
