"""The command `holon`: a root that finds its groups of commands, and the groups that belong to the runtime."""
