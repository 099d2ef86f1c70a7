"""Node processes of one machine, started, watched and restarted by a command, and what it shows of them."""
