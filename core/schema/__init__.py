"""The one reader of JSON Schema. Pure: no Django, no network, no rule of the product.

A vendor's schema, of any draft or of OpenAPI, becomes a document in one internal form, and readers ask the
document:

    document = read_document(schema)               # and a dialect, where OpenAPI names one
    document.findings                              # what the internal form leaves out, and where
    document.root                                  # JSON Schema 2020-12; each `$ref` is a good pointer
    level = document.level(document.root)          # one level: `$ref` followed, `allOf` joined
    level.schema, level.apart                      # `apart`: what no keyword could join; it holds too
    types.types_of(level.schema)                   # also values_of, lower_bound, upper_bound
    inputs = read_object(document, document.root)  # members, required, patterns, others, is_open, direction
    document.level(inputs.members["a"].schema)     # and so on, downwards

`read_document` raises SchemaBoundsError for a schema that is too deep or too large, and nothing else.
Whatever is wrong with a schema is a finding. Nobody changes `document.root` or a level: they are shared.

Modules, from below:

- `pointers`: JSON Pointers. The only place that splits or escapes one.
- `bounds`, `subschemas` (the places of schemas inside a schema), `types`,
  `regular_expressions`
- `dialects`: old spellings, rewritten in one place
- `references`: `$ref`, `$anchor`, `$id`, `$dynamicRef`, `$recursiveRef` within a document
- `merge`: the one meaning of `allOf`
- `document`: `read_document` and `Document`
- `objects`: members, required names and openness of an object
- `validation`, `complexity`, `error_messages`: judging a value, and sentences about it
- `cycles`: the search for references that lead back; `loops`: those of a schema as its vendor wrote it, and
  references that lead nowhere; `regex_dialects`: which patterns compile where
- `spelling`: what one level states as its vendor wrote it, and small changes to that; `inlining`: a schema
  without references
- `directions`: the schema of what is sent, or of what is returned
- `unknown_names`: names in a value that its schema does not describe
- `normal_form`: levels that are compared; `shown_forms`: the form of a schema that a person is shown
- `samples`, `sample_texts`: values that fit a schema
- `rows`: an editor; `normalization`, `audience`: forms for digests
"""

from core.schema.bounds import SchemaBoundsError
from core.schema.dialects import AnySchema, Dialect, Schema, dialect_of, dialect_of_openapi
from core.schema.document import SchemaDocument, SchemaFinding, read_document
from core.schema.merge import Level
from core.schema.objects import ObjectMember, ObjectSchema, read_object

__all__ = [
    "AnySchema",
    "Dialect",
    "Level",
    "ObjectMember",
    "ObjectSchema",
    "Schema",
    "SchemaBoundsError",
    "SchemaDocument",
    "SchemaFinding",
    "dialect_of",
    "dialect_of_openapi",
    "read_document",
    "read_object",
]
