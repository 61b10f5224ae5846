"""The registry of protocols that releases are served in. A new one is one file here and one name in `SERVED`.

Each says in its own words what `executor.calls` does for every caller; docs/runtimes.md has the addresses.
"""

from executor.serve import a2t, acp, mcp, oxp
from executor.serve.base import ServedProtocol

# As *Connect* shows them: what most clients speak comes first.
SERVED: tuple[ServedProtocol, ...] = (mcp.PROTOCOL, a2t.PROTOCOL, oxp.PROTOCOL, acp.PROTOCOL)


def get(name: str) -> ServedProtocol | None:
    return next((protocol for protocol in SERVED if protocol.name == name), None)
