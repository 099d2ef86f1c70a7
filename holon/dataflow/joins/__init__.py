"""Joins: the steps of both sides, and pairs of rows with equal keys. Windows of one stream are not here."""
