"""What is wrong with this installation, in plain sentences: `manage.py doctor`.

frame      a check, what it finds, and which checks must pass before it can be asked
setup      settings, keys and files
servers    the database and the broker
outside    the outbound proxy, the identity provider, the mail server, certificate authorities
work       what should be happening and is not
"""
