"""The HTTP gateway of a transactional job: its routes, its connections, its token, its client."""
