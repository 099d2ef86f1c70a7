"""Programs that request transactions over the log: the blocking client, the one for asyncio, their request ids."""
