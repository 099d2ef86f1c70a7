"""Figures and health of a node, and the server that shows them; nothing that a node decides follows from them."""
