"""Activities, which run for a tool in place of its vendor. A kind is one module and one name in `KINDS`.

`base` has the contract of a kind, `engine` runs steps, `operations` saves activities, `mapping` and
`picking` fill inputs, and `reach` returns all that a call of an activity would run.
"""
