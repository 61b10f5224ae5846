"""REST of users and of the audit trail, and the base classes of all views of the API."""
