"""Transactional jobs on a log: their topics, the nodes that run them, and the client."""
