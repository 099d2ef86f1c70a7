"""Parts of following functions with placeholders: ways, declared types, stand-ins, formats, results."""
