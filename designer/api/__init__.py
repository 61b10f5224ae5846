"""REST of agents, pins, tunings, procedures, environments, rehearsals, releases and channels."""
