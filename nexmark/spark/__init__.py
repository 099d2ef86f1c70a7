"""Spark beside the engine: generation at scale."""
