"""Inputs and attackers that did harm once: each is named, refused or kept, and nothing else suffers."""
