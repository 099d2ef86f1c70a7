"""Layouts of a running job: how one is requested, how nodes make it hold, and how it is shown."""
