"""Fleets of up to a thousand nodes in the time that their turns would cost."""
