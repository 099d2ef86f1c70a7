"""Bugs in the log on Kafka, which files of the folder above have no room for."""
