"""The node as a state machine, pure: control messages, ownership, assignment, failure detection, and the node itself.

Two rules for this room. It has no clock, thread, randomness, environment or file access (time arrives as an argument).
Decisions about the fleet are made by folding the control topic, so that nodes that have read the same prefix agree.
"""
