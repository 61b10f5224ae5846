"""Where a vendor's tokens come from, as it says itself: for a person to look at, never applied by itself."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Server:
    """What one authorization server says about itself (RFC 8414, or OpenID Connect Discovery).

    `problem` is a sentence when it cannot be used for a sign-in.
    """

    issuer: str
    token_url: str
    authorization_url: str = ""
    scopes: list[str] = field(default_factory=list)
    client_authentication: str = "basic"
    states_issuer: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One address that was asked, or was not, and what came of it."""

    url: str
    said: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """`scope` is what the vendor wants a token to have; `resource` what it is for (RFC 9728)."""

    resource: str
    name: str = ""
    scope: str = ""
    servers: list[Server] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def discover(url: str, challenge: str = "") -> Discovery:
    """Asks the vendor at `url`, and the authorization servers it names. Takes up to 20 s.

    `challenge` is the WWW-Authenticate header of a 401 that is known already. Raises RefusedError for an
    address that is none; whatever else goes wrong is in `steps`.
    """
    raise NotImplementedError
