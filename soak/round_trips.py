"""JSON Schemas that others publish, as inputs in every format.

Each value that a model writes reaches the vendor, or the format reports what it loses.
"""

from soak.frame import Field, stopwatch
from tests.designer.exports.public_schemas import public_schemas
from tests.designer.exports.test_round_trip import breaches, inputs_of


def storm(field: Field) -> None:
    tried = 0
    with stopwatch() as seconds:
        for name, schema in public_schemas(count=field.times(short=300, long=5_000)):
            losses = breaches(inputs_of({"value": {"type": "object", **schema}}, required=["value"]))
            field.expect(not losses, f"{name}: {losses[:2]}")
            tried += 1
    field.fault("schema", f"{tried} schemas, each in every format and with four values")
    field.figure("schemas", tried)
    field.figure("schemas a second", round(tried / seconds()))
