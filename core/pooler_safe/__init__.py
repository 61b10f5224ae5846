"""A database backend of Django that leaves no state in a session, so that a pooler may share it."""
