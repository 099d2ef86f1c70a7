"""Protobuf records: schemas as registries have them, and messages read as objects of a type."""
