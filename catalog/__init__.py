"""The tools that vendors offer: connecting vendors, enumerating and reviewing tools, and searching them.

The modules beside the packages serve all of them: Celery tasks, retention, `invariants` that doctor and
tests check, and `waiting_work`, which finds work that no message announced.
"""
