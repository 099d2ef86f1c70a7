"""Late rows, and how long windows wait for them."""
