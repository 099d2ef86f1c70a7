"""Arrow record batches: how columns are planned, read where they lie, made by msgspec, and written."""
