"""The registry of protocols that releases are served in. A new protocol is one entry in `SERVED`: its server,
and the class of the releases that it serves.

`serving.calls` runs the tools for all of them; docs/runtimes.md has the addresses.
"""

from collections.abc import Mapping
from typing import Any

from protocols.a2t.server import A2TServer
from protocols.acp.server.server import ACPServer
from protocols.mcp.server.server import MCPServer
from protocols.oxp.server import OXPServer
from protocols.server import Server
from serving.serve.a2t import A2TRelease
from serving.serve.acp import ACPRelease
from serving.serve.base import ServedRelease
from serving.serve.mcp.release import MCPRelease
from serving.serve.oxp import OXPRelease

# In the order of *Connect*: the protocol of most clients comes first.
SERVED: Mapping[Server[Any], type[ServedRelease]] = {
    MCPServer(): MCPRelease,
    A2TServer(): A2TRelease,
    OXPServer(): OXPRelease,
    ACPServer(): ACPRelease,
}
SERVERS: Mapping[str, Server[Any]] = {server.name: server for server in SERVED}
