"""Commands on the control topic: their names, what JobStarted describes for them, and how much of them is kept."""

RETRY = "retry"
"""Name of a ``Command``: what failed before it is worth another try for those who start after it."""
CODE, CODE_BESIDE = "code", "code beside"
"""Names of ``Command``s: from here on the job goes on with this version alone, or with it beside those before."""
VERSION = "version"
"""Where JobStarted describes the version that the job began with."""
LAYOUT, LAYOUT_PROGRESS, LAYOUT_DONE = "layout", "layout progress", "layout done"
"""Names of commands, beside those of ``messages.py``; their arguments are values of ``layouts.py`` as JSON."""
AUTOSCALE = "autoscale"
"""Name of a command: an autoscaler has decided something; nodes of releases before pass it over."""
KEPT_CODES = 4
KEPT_NODE_INCARNATIONS, KEPT_COMMANDS = 1024, 256
"""Names of nodes whose incarnations are counted, beside those of members; commands that are known to be taken."""
