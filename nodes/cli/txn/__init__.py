"""One module for each command of ``holon txn``."""
