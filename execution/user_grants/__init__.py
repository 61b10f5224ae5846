"""End users of agents: their grants at providers, the tokens of these, and the secrets that tools request."""
