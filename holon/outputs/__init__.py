"""Results with identities: the outbox, their order and routing, and how duplicates are recognised."""
