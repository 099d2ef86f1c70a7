"""Programs that ask for transactions over the log: the blocking client, the one for asyncio, their request ids."""
