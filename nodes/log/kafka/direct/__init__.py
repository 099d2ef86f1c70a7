"""Record batches fetched and produced over connections of our own, by compiled loops."""
