"""How one tool runs: for whom, with which secrets, at most once."""
