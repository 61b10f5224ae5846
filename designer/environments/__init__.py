"""Environments, their bindings, and the mocks of agents."""
