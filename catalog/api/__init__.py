"""REST of vendors, endpoints, credentials, runs, tools, definitions, findings and searches."""
