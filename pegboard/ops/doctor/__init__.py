"""Checks of this installation, in plain sentences: `manage.py doctor`.

frame      a check, its findings, and the checks that must pass before it
setup      settings, keys and files
servers    the database and the broker
outside    the outbound proxy, the identity provider, the mail server, certificate authorities
work       work that should be running, and the data
"""
