"""The registry of protocols that releases are served in. A new protocol is one entry in `SERVED`: its server,
and the function that opens a release for it.

`serving.calls` runs the tools for all of them; docs/runtimes.md has the addresses.
"""

from collections.abc import Callable, Mapping
from typing import Any

from protocols.a2t.server import A2TServer
from protocols.acp.server.server import ACPServer
from protocols.mcp.server.server import MCPServer
from protocols.oxp.server import OXPServer
from protocols.server import Server
from serving.serve import a2t, oxp
from serving.serve.acp import ACPRelease
from serving.serve.base import Operations
from serving.serve.mcp.release import MCPRelease

# In the order of *Connect*: the protocol of most clients comes first.
SERVED: Mapping[Server[Any], Callable[[Operations], Any]] = {
    MCPServer(): MCPRelease,
    A2TServer(): a2t.open_release,
    OXPServer(): oxp.open_release,
    ACPServer(): ACPRelease,
}


def get(name: str) -> Server[Any] | None:
    return next((server for server in SERVED if server.name == name), None)
