"""Nexmark: event model, generator, queries, oracles and benchmark runs."""
