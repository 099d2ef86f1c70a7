"""Spark beside the engine: generation at scale, reading logs, and the session that both use."""
