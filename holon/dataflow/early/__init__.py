"""Results before a window is complete: slices of windows, and the window of which they are taken in. No verbs here."""
