"""What discovery brings to light, for a person to look at."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Server:
    """What one authorization server says about itself (RFC 8414, or OpenID Connect Discovery).

    `client_authentication` is the one of our ways that it takes, "" for none. `registration_url` is where a
    client registers itself (RFC 7591), `revocation_url` where tokens are ended (RFC 7009), both "" unless it
    names them at an origin of its own. `takes_documents`: a client id may be the address of a document about
    the client. `problem` is a sentence when it cannot be used for a sign-in.
    """

    issuer: str
    token_url: str = ""
    authorization_url: str = ""
    scopes: list[str] = field(default_factory=list)
    client_authentication: str = ""
    states_issuer: bool = False
    registration_url: str = ""
    revocation_url: str = ""
    takes_documents: bool = False
    problem: str = ""

    def wanted(self, scope: str) -> str:
        """The scopes to ask for. Where it knows `offline_access`, a sign-in is renewed with that alone."""
        words = scope.split()
        may_stay = "offline_access" in self.scopes and "offline_access" not in words
        return " ".join([*words, "offline_access"] if may_stay and self.authorization_url else words)


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
