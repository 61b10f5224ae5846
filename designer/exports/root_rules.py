"""Rules beside the properties of an input schema, for targets that refuse them at the top.

A reference or an `allOf` at the top becomes properties of the object, as far as one object can have the same
meaning. Where it cannot, `inputs.write` moves the whole schema below one property, where any rule may be.
"""

from core.content_cache import SchemaCache, digest
from core.schema import Schema, SchemaBoundsError, read_document, spelling
from designer.signatures import model_names

# Most formats flatten the same schema.
_flat_schemas: SchemaCache[None] = SchemaCache(size=20)


def flatten(schema: Schema) -> Schema:
    """Return an equal schema with fewer rules at the top, in the internal form of `core.schema`.

    The schema as it is where nothing can be joined, and where a model would see an illegal name.
    """

    def flatten_once() -> Schema:
        try:
            document = read_document(schema)
        except SchemaBoundsError:
            return schema
        level = document.level(document.root)
        flat = {**level.schema, "allOf": list(level.apart)} if level.apart else level.schema
        properties = level.properties
        added = properties.keys() - spelling.properties_of(schema).keys()
        if flat.get("not") == {} or not all(map(model_names.is_property, added)):
            return schema
        trivial = {"anyOf"} if any(choice in (True, {}) for choice in flat.get("anyOf", ())) else set()
        if "if" not in flat or not flat.keys() & {"then", "else"}:
            trivial |= {"if", "then", "else"}
        flat = {keyword: value for keyword, value in flat.items() if keyword not in trivial}
        if definitions := spelling.definitions_of(document.root):
            flat["$defs"] = definitions
        # Some clients refuse true and false.
        objects = {
            name: child if isinstance(child, dict) else {} if child else {"not": {}}
            for name, child in properties.items()
        }
        return flat | {"properties": objects}

    flat, _ = _flat_schemas.get(digest(schema), lambda: (flatten_once(), None))
    return flat
