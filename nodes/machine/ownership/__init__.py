"""The owners of partitions: the fold of claims, their assignment, handing over; pure."""
