"""A module of a user that cannot be imported."""

job = 1 / 0
