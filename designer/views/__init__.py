"""Pages of agents, pins, procedures, environments, rehearsals, releases, runtimes and teams."""
