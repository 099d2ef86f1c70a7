"""Keyed state as columns: what ``MapOf`` keeps of aggregates in place of an object a key. No lattice is here."""
