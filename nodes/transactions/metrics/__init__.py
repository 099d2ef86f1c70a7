"""Figures of a transactional node; the server and the health checks are in ``nodes.metrics``."""
