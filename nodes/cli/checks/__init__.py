"""Checks of `holon doctor`: the machine, the broker, and the way in which a topic is read."""
