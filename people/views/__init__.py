"""Pages of accounts, users and the audit trail."""
