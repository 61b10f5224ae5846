"""Users, teams, roles and API keys, and the audit trail. Nothing here knows tools or agents."""
