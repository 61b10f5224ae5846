"""Storms: faults by the hundred, on real servers, for longer than a test may take.

`make soak` runs all of them, `make soak ARGS="--short kills"` some of one. A storm is one module of this
package with a docstring of one sentence and one function:

    def storm(field: Field) -> None

It runs in a process of its own, on a PostgreSQL and a Valkey of its own (durable, and free to be
killed), with Django set up and an empty, migrated database. `soak.frame.Field` lists what it may use.
"""
