"""Shared documents of Yjs as lattices (extra ``yjs``)."""
