"""Pages of vendors, endpoints, credentials, runs, definitions, reviews and searches."""
