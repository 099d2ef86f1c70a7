"""Spark beside the engine: the session, and logs as DataFrames. Nothing here is needed to run a job."""
