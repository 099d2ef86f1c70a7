"""The log in a folder of this machine, on LMDB: partitions, blocks, locks between processes."""
