"""A database backend of Django in which the threads of a process share a few connections."""
