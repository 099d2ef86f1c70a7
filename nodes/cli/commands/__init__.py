"""One module for each command of streams, logs and the machine; what commands share is above."""
