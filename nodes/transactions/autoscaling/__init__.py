"""Autoscaling of a transactional job: samples, decisions, their records on the log, and providers of nodes."""
