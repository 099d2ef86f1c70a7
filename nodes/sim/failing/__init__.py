"""Simulated jobs whose functions fail, and the results that are expected of them."""
