"""Credentials for vendors: `sessions` decrypts them, `rate_limit` and `circuit_breaker` limit their use.

`operations` creates and changes credentials, `rotation` encrypts them with another key, `status` states
whether they work.
"""
