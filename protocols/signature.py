"""The normal form of a tool's interface, whatever protocol it came from.

Shapes follow docs/architecture.md, "The normal form". Values are immutable, compare by content and
travel as JSON: `to_json` and `from_json` are exact inverses. Members that were not given are left
out of the JSON; absent means the default below.
"""

from typing import Any, Literal

import msgspec

ParameterType = Literal["string", "int", "number", "boolean", "enum", "json"]
ContextKind = Literal["prompt", "resource", "resource_template"]
ToolKind = Literal["tool", "agent"] | ContextKind
Effect = Literal["reads", "changes", "destroys", "unknown"]
# What a vendor offers beside tools: texts that a client puts into a model's context.
CONTEXT_KINDS: tuple[ContextKind, ...] = ("prompt", "resource", "resource_template")
PARAMETER_TYPES: tuple[ParameterType, ...] = ("string", "int", "number", "boolean", "enum", "json")


class AllowedValue(msgspec.Struct, frozen=True):
    name: str
    description: str = ""


class Parameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One input or output. `id` is the vendor's stable identity, `name` what the wire and a model use.

    `min` and `max` are inclusive; `max_defaulted` says that the protocol's default stands in for a
    maximum the vendor did not send. `unsupported_type` keeps the vendor's own word for a type that
    the normal form lacks: such a tool is shown and cannot be invoked. `schema` is the full JSON
    Schema, unchanged, wherever the other members cannot say all of it; `rest` are members of the
    vendor's own parameter that nothing else carries. `is_whole` says that it stands for the whole
    value and not for a member of it: an input or output that is no object.
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
    """What the vendor claims about a call's effects; None means that the vendor did not say."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    @property
    def effect(self) -> Effect:
        """The worst that a call does. What is not stated is unknown, which is not harmless."""
        if self.destructive:
            return "destroys"
        if self.read_only is None:
            return "unknown"
        return "reads" if self.read_only else "changes"


class Requirements(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    scopes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    user: bool = False


# Weak references tell when what was derived from a signature may go.
class Signature(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, weakref=True):
    """A tool, a prompt or a resource as the vendor describes it.

    `schema_rest` and `outputs_rest` hold what the schemas of the input and the output object say
    beside their properties (`json_schema.Shape`). `rest` are members of the vendor's document that
    nothing else carries, unchanged.
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
    rest: dict[str, Any] | None = None


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Signature)


def to_json(signature: Signature) -> bytes:
    """Equal signatures give equal bytes."""
    return _encoder.encode(signature)


def from_json(text: bytes | str) -> Signature:
    """Raises msgspec.ValidationError when `text` is not a signature."""
    return _decoder.decode(text)
