"""Known bugs, planted one at a time in a copy of the tree; the tests aimed at each have to find it."""
