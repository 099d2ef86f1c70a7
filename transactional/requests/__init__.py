"""Requests of clients and their replies: requests, replies, and how long both are remembered."""
