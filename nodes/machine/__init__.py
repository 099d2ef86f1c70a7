"""The node as a state machine, pure: control messages, ownership, assignment, failure detection, and the node itself.

Two rules for this room: no clock, thread, randomness, environment or file access (time arrives as an argument); what is
decided about the fleet is decided by folding the control topic, so that whoever read the same prefix agrees.
"""
