"""`holon txn bench`: a workload on node processes, its figures, and the proof of what came of it."""
