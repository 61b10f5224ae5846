"""Rehearsals: sentences of users with the expected tool, the judges that choose, and pairs of confusable
tools.
"""
