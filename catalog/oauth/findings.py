"""What discovery brings to light, for a person to look at."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Server:
    """What one authorization server says about itself (RFC 8414, or OpenID Connect Discovery).

    `client_authentication` is the one of our ways that it takes, "" for none. `problem` is a sentence when it
    cannot be used for a sign-in.
    """

    issuer: str
    token_url: str = ""
    authorization_url: str = ""
    scopes: list[str] = field(default_factory=list)
    client_authentication: str = ""
    states_issuer: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One address that was asked, or was left alone, and what came of it."""

    url: str
    said: str


@dataclass(slots=True)
class Discovery:
    """`scope` is what the vendor wants a token to have; `resource` what it is for (RFC 9728)."""

    resource: str
    name: str = ""
    scope: str = ""
    servers: list[Server] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
