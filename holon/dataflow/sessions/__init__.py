"""Windows of sessions: the step, who answers for which keys, and the sessions that are open. No other windows."""
