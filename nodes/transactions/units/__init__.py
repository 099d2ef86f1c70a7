"""The units that a transactional node works on: how it takes and loads them, and when it publishes as a standby."""
