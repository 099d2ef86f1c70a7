"""The Nexmark queries as Holon jobs; files carry the names of the benchmark."""
