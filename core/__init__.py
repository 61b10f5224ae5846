"""The kernel below all other packages: it knows no rule of the product and has no model.

It has strict JSON and YAML, encryption, rate limits, deadlines and pagination; connections to PostgreSQL
and the broker; counters and the context of log lines; and the base classes of errors and serializers.
"""
