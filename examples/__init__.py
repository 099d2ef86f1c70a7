"""Five small jobs, each a module with a ``job``: ``holon run examples.query1:job``."""
