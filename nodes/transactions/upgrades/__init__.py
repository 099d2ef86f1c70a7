"""Versions of a job's program at its nodes: their modules, and how one is proposed. The ledger knows which holds."""
