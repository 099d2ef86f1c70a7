"""The input of a simulated run."""
