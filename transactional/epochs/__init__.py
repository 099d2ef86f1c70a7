"""Epochs of the log: cuts, sequencers, the ledger, messages, and what nobody needs any more."""
