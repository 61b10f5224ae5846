"""Starts every demo vendor in one process: python -m demo --port-base 8101 [--state DIR]."""

import argparse
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from demo import VENDORS, DemoVendor
from demo.a2t_server import A2tServer
from demo.acp_server import AcpServer
from demo.bank import QuillmoorBank
from demo.mail import Larkspur, Pennypost
from demo.mcp_server import McpServer
from demo.museum import TOOLS, Museum
from demo.openapi_server import OpenApiServer
from demo.oxp_server import OxpServer
from demo.pharmacy import BramblePharmacy
from demo.published_tools import PublishedTools, StateFileError
from demo.signatures import Backend, requirements_of
from demo.travel import Northwind
from demo.weather import Fairweather
from demo.web import Port, VendorServer
from demo.workshop import DOCUMENT, Workshop

BACKENDS: dict[str, type[Backend]] = {
    "bramble-pharmacy": BramblePharmacy,
    "fairweather": Fairweather,
    "larkspur": Larkspur,
    "northwind": Northwind,
    "pennypost": Pennypost,
    "quillmoor": QuillmoorBank,
}


def published_tools_of(vendor: DemoVendor, state: Path | None) -> PublishedTools:
    keeps = vendor.publishes and state is not None
    return PublishedTools(
        BACKENDS[vendor.slug], state=state / f"{vendor.slug}.json" if keeps and state else None
    )


def a2t_server(port: Port, vendor: DemoVendor, state: Path | None) -> VendorServer:
    return A2tServer(port, vendor, published_tools_of(vendor, state))


def oxp_server(port: Port, vendor: DemoVendor, state: Path | None) -> VendorServer:
    backend = BACKENDS[vendor.slug]
    return OxpServer(port, vendor, PublishedTools(backend), requirements_of(backend))


def mcp_server(port: Port, vendor: DemoVendor, state: Path | None) -> VendorServer:
    return McpServer(port, vendor, Museum(), TOOLS)


def acp_server(port: Port, vendor: DemoVendor, state: Path | None) -> VendorServer:
    return AcpServer(port, vendor)


def openapi_server(port: Port, vendor: DemoVendor, state: Path | None) -> VendorServer:
    return OpenApiServer(port, vendor, DOCUMENT, Workshop())


# By protocol: what listens on a port for a vendor, with a folder for what has been published.
SERVERS: dict[str, Callable[[Port, DemoVendor, Path | None], VendorServer]] = {
    "a2t": a2t_server,
    "acp": acp_server,
    "mcp": mcp_server,
    "oxp": oxp_server,
    "openapi": openapi_server,
}


def open_servers(ports: Sequence[Port], state: Path | None) -> list[VendorServer]:
    """Open the servers of all demo vendors. `ports` has one for each vendor, in the order of `VENDORS`."""
    if state:
        state.mkdir(parents=True, exist_ok=True)
    return [
        SERVERS[vendor.protocol](port, vendor, state) for port, vendor in zip(ports, VENDORS, strict=True)
    ]


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demo", description="Starts the demo vendors on this machine."
    )
    parser.add_argument("--port-base", type=int, default=8101, help="port of the first vendor (default 8101)")
    parser.add_argument(
        "--listeners", type=int, nargs="+", help="inherited sockets, one for each vendor, in place of ports"
    )
    parser.add_argument("--state", type=Path, help="folder that remembers what has been published")
    return parser.parse_args()


def main() -> None:
    arguments = parsed_arguments()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        ports: Sequence[Port] = [arguments.port_base + vendor.port_offset for vendor in VENDORS]
        if arguments.listeners:
            ports = [socket.socket(fileno=number) for number in arguments.listeners]
        servers = open_servers(ports, arguments.state)
    except (OSError, OverflowError, StateFileError) as exc:
        sys.exit(f"The demo vendors cannot start on ports from {arguments.port_base} on: {exc}")
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdout.write(f"{server.api.vendor.name}: {server.url}/\n")
    sys.stdout.flush()
    # Nothing has to be put away: the threads are daemons, and state is written when it changes.
    stop.wait()


if __name__ == "__main__":
    main()
