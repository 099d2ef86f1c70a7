"""Running functions of transactions: in order, again, apart, and until they must be stopped."""
