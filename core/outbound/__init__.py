"""The only HTTP client. It checks every address before it connects, and bounds every wait and every byte.

`session` sends requests, `policy` and `addresses` state which networks are open, `egress` has proxy and
authorities, `connection_pool` reuses connections, and `secret_echo` refuses replies that repeat a secret.
"""
