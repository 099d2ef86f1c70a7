"""Records as columns without a Python object for each: buffers, and the compiled loops that fill them."""
