"""Parts of following functions with placeholders: formats."""
