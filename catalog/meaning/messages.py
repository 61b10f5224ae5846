"""The messages between the processes of a host and its process for meanings. Pure."""

import msgspec

SOCKET = "meaning.sock"


class ReadState(msgspec.Struct, frozen=True, tag="read_state"):
    """Request the state that the vectors were stored with."""


class Prepare(msgspec.Struct, frozen=True, tag="prepare"):
    """Load the model, because questions are likely to follow. The reply comes first."""


class StoreTexts(msgspec.Struct, frozen=True, tag="store_texts"):
    """Make vectors of texts and store them together with the state; remove those of other tools.

    tools, endpoints, texts, names: of equal length; a model may compare names on their own, too.
    is_start: all vectors that are stored are thrown away first.
    """

    tools: list[int]
    endpoints: list[int]
    texts: list[str]
    names: list[str]
    removed: list[int]
    state: str
    is_start: bool = False


class FindNearest(msgspec.Struct, frozen=True, tag="find_nearest"):
    """Compare a question with tools.

    rephrased: the query with synonyms, by which the nearest tools are found; "" without synonyms.
    clauses: those of a long question, with synonyms; the tools nearest to each of them are found too.
    endpoints: where to look for the nearest tools; None for everywhere.
    tools: other tools to compare; None where a message of their own, OtherTools, follows.
    limit: how many tools to return that are nearest to the question, and to each clause.
    """

    text: str
    endpoints: list[int] | None
    tools: list[int] | None
    limit: int
    rephrased: str = ""
    clauses: list[str] = []


class OtherTools(msgspec.Struct, frozen=True, tag="other_tools"):
    """The tools to compare with the question that was sent before them."""

    tools: list[int]


class Usage(msgspec.Struct, frozen=True):
    """The tokens sent to the address of a model. A model of this host costs nothing.

    tokens: as the address counts them, 0 if it does not.
    """

    texts: int = 0
    characters: int = 0
    tokens: int = 0


class StoredState(msgspec.Struct, frozen=True, tag="stored_state"):
    """The state of the vectors, None if there are none, and the recipe of the model that makes them.

    trouble: why no vectors can be made now.
    """

    state: str | None
    recipe: str
    usage: Usage = Usage()
    trouble: str = ""


class Similarities(msgspec.Struct, frozen=True, tag="similarities"):
    """Cosines by tool: of those nearest to the question or to one of its clauses, and of the requested ones.

    rephrased: of all these tools with the rephrased question; empty if there was none.
    clauses: of all these tools with the nearest clause; empty if there were none.
    chore: how much the question reads like work done by hand, None if the model cannot tell.
    """

    nearest: dict[int, float]
    others: dict[int, float]
    rephrased: dict[int, float] = {}
    chore: float | None = None
    clauses: dict[int, float] = {}


class Loading(msgspec.Struct, frozen=True, tag="loading"):
    """Comes before the reply where the model has to be loaded first, which takes some seconds."""


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    message: str


Request = ReadState | Prepare | StoreTexts | FindNearest | OtherTools
Reply = StoredState | Similarities | Loading | Failure

encode = msgspec.msgpack.encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
