"""The step that all windows of slices of event time share, and slices by shard. No kind of windows."""
