"""The normal form of a tool's interface, for all protocols.

docs/architecture.md, "The normal form", defines the shapes. Values are immutable and compare by content.
`to_json` and `from_json` are exact inverses; the JSON omits members that have their default.
"""

from typing import Any, Literal

import msgspec

from core.content_cache import ContentCache

ParameterType = Literal["string", "int", "number", "boolean", "enum", "json"]
ContextKind = Literal["prompt", "resource", "resource_template"]
ToolKind = Literal["tool", "agent"] | ContextKind
Effect = Literal["reads", "changes", "destroys", "unknown"]
# Items other than tools: texts that a client adds to a model's context.
CONTEXT_KINDS: tuple[ContextKind, ...] = ("prompt", "resource", "resource_template")
PARAMETER_TYPES: tuple[ParameterType, ...] = ("string", "int", "number", "boolean", "enum", "json")


class AllowedValue(msgspec.Struct, frozen=True):
    name: str
    description: str = ""


class Parameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One input or output.

    id: the vendor's stable id. name: the name on the wire and for models.
    min, max: inclusive. max_defaulted: the vendor sent no maximum, and `max` is the protocol's default.
    unsupported_type: the vendor's name of a type that the normal form lacks; such a tool cannot be invoked.
    schema: the full JSON Schema, unchanged, if the other members cannot express all of it.
    rest: other members of the vendor's parameter. is_whole: the parameter is the whole value and not a member
    of an object.
    """

    id: str
    name: str
    type: ParameterType
    required: bool
    description: str
    title: str = ""
    allowed_values: tuple[AllowedValue, ...] = ()
    min: int | float | None = None
    max: int | float | None = None
    max_defaulted: bool = False
    max_length: int | None = None
    default: Any = msgspec.UNSET
    schema: dict[str, Any] | bool | None = None
    unsupported_type: str = ""
    is_whole: bool = False
    rest: dict[str, Any] | None = None


class Annotations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The effects of a call that the vendor declares; None if undeclared."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    @property
    def effect(self) -> Effect:
        """The most severe declared effect. An undeclared effect is unknown, which is not harmless."""
        if self.destructive:
            return "destroys"
        if self.read_only is None:
            return "unknown"
        return "reads" if self.read_only else "changes"


class Requirements(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    scopes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    user: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The members that ask for something."""
        return tuple(name for name in ("scopes", "secrets", "user") if getattr(self, name))


# Caches of values derived from a signature use weak references.
class Signature(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, weakref=True):
    """The interface of a tool, a prompt or a resource as the vendor describes it.

    schema_rest, outputs_rest: keywords of the input and the output object besides its properties.
    is_closed: a call cannot carry any input beside `inputs`, whatever `schema_rest` states.
    rest: other members of the vendor's document, unchanged.
    """

    name: str
    description: str
    title: str = ""
    img: str = ""
    tags: tuple[str, ...] = ()
    inputs: tuple[Parameter, ...] = ()
    outputs: tuple[Parameter, ...] = ()
    annotations: Annotations = Annotations()
    requirements: Requirements = Requirements()
    kind: ToolKind = "tool"
    schema_rest: dict[str, Any] | None = None
    outputs_rest: dict[str, Any] | None = None
    is_closed: bool = False
    rest: dict[str, Any] | None = None

    @property
    def enforced_rest(self) -> dict[str, Any]:
        """The keywords beside the properties by which inputs are exported and validated.

        A protocol without schemas lists all inputs. Stored versions and the changes between them have
        `schema_rest`, so that no version differs from another only because of a newer reader.
        """
        if self.schema_rest is None:
            return {"additionalProperties": False}
        return self.schema_rest | ({"additionalProperties": False} if self.is_closed else {})


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Signature)
MAX_SHARED_TEXT = 10_000  # characters; longer texts take memory in each process
_signatures: ContentCache[Signature] = ContentCache(size=500)


def to_json(signature: Signature) -> bytes:
    """Encode a signature. Equal signatures have equal bytes."""
    return _encoder.encode(signature)


def from_json(text: bytes | str) -> Signature:
    """Decode a signature. Raises msgspec.ValidationError."""
    return _decoder.decode(text)


def read_stored(text: str) -> Signature:
    """Return the signature of a stored text: the same object for the same text, while pages use it."""
    if len(text) > MAX_SHARED_TEXT:
        return from_json(text)
    # A signature takes four to seven times the memory of its text.
    return _signatures.get(text, lambda: from_json(text), byte_count=7 * len(text))
