"""The registry of protocols that releases are served in. A new one is one file here and one name in `SERVED`.

Each says in its own words what `executor.calls` does for every caller; docs/runtimes.md has the addresses.
"""

from executor.serve import a2t, acp, mcp, oxp
from executor.serve.base import ServedProtocol

SERVED: tuple[ServedProtocol, ...] = (a2t.PROTOCOL, acp.PROTOCOL, mcp.PROTOCOL, oxp.PROTOCOL)


def get(name: str) -> ServedProtocol | None:
    return next((protocol for protocol in SERVED if protocol.name == name), None)
