"""Windows of event time, their assigners, and windows by their end."""
