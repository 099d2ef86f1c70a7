"""Engines side by side: the same broker, the same topic, the same cores."""
