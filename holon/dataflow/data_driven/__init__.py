"""Windows driven by data: their slices, the rows of these in order, and the windows that are open. No other windows."""
