"""Checkpoint files, the stores that keep them, and saving beside a node's loop; the machine decides when one is due."""
