"""Two ways to change the homes of keys while transactions run, beside each other in virtual time."""
