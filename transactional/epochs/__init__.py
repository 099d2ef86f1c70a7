"""Epochs of the log: cuts, sequencers, the ledger, messages, and what no node needs any more."""
