"""Places of changes in a schema, and the paths that name them."""

Path = tuple[str, ...]

# Members of a parameter with the same meaning as keywords at the outermost level of its schema.
_FLAT = {
    "type": "type",
    "enum": "allowed_values",
    "minimum": "min",
    "maximum": "max",
    "maxLength": "max_length",
}


class Place:
    """A position within the parameter or the schema at `start`."""

    def __init__(self, start: Path, inside: Path = (), *, is_parameter: bool = False) -> None:
        self.start = start
        self.inside = inside
        self.is_parameter = is_parameter

    @property
    def is_flat(self) -> bool:
        return self.is_parameter and not self.inside

    def to(self, *parts: str) -> "Place":
        return Place(self.start, (*self.inside, *parts), is_parameter=self.is_parameter)

    def path(self, *parts: str) -> Path:
        if not self.is_parameter:
            return (*self.start, *self.inside, *parts)
        if not self.inside and parts and parts[0] in _FLAT:
            return (*self.start, _FLAT[parts[0]], *parts[1:])
        return (*self.start, "schema", *self.inside, *parts)
