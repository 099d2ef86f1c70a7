"""`holon bench`: any job beside other engines, on the same records, with answers compared."""
