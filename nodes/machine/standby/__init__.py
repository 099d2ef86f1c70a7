"""Replicas of a partition beside its owner: what they hold back, and when they publish; pure."""
