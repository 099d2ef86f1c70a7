"""Arrow record batches as columns: their types, values that are made when they are read, and the reader."""
