"""What all of REST shares: errors, pagination, parsing, and the schema of the API."""
