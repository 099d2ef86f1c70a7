"""All settings of a node, a job and the command line, and where they come from; nothing is opened here."""
