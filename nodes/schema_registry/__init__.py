"""Schemas of a registry, for the formats that need them: requested over HTTP. How records are read is holon.formats."""
