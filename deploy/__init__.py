"""The surroundings of a deployment: local Kafka, compose, dashboards, peers.

No room imports it; it is not installed.
"""
