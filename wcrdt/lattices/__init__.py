"""The lattice types, one family a file; ``wcrdt`` re-exports them all."""
