"""The process of a streaming node: its loop, its topics, and what it does for the state machine."""
