"""The runtime: the node as a state machine, and the shell around it: logs, stores, fleet and command line."""
