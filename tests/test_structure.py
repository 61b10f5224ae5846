"""How modules depend on each other, beyond the layers that import-linter holds."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("core", "people", "catalog", "protocols", "designer", "executor", "pegboard", "demo")


def test_no_modules_import_each_other_in_a_circle():
    """Imports for types alone count: what needs a module for its types belongs beside it or below it."""
    graph = grimp.build_graph(*ROOMS)
    found = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(found) > 400
    circle = []
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert circle == []


# Modules that open connections, and those of ours that may import them beside core/outbound.
NETWORK = (
    "aiohttp", "asyncio", "ftplib", "http.client", "httpx", "httpx2", "imaplib", "poplib", "requests",
    "smtplib", "socket", "ssl", "urllib.request", "urllib3", "websockets", "xmlrpc.client",
)  # fmt: skip
NETWORK_ELSEWHERE = {
    "catalog/notifications/mail.py": {"smtplib"},  # the errors of the mail server that the deployment names
    "core/mail_backend.py": {"smtplib", "ssl"},  # types of what Django and core/outbound make
    "executor/serve/views.py": {"socket"},  # whether a caller of ours has gone
    "pegboard/client.py": {"http.client", "urllib.request"},  # the command line, where its user is
    "pegboard/gunicorn.py": {"socket"},  # listens
    "pegboard/local/product.py": {"http.client", "socket"},  # listens, and looks at its own page
    "pegboard/ops/doctor/outside.py": {"smtplib", "ssl"},  # the errors of the mail server
    "pegboard/web/buffering_worker.py": {"socket"},  # listens
}


def test_only_the_outbound_client_opens_connections():
    """So that no request goes past the address rule, the proxy and the authorities of the installation."""
    found = {}
    for path in (path for room in ROOMS if room != "demo" for path in (ROOT / room).rglob("*.py")):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        network = {each for each in NETWORK for name in imported if f"{name}.".startswith(f"{each}.")}
        if network and not path.is_relative_to(ROOT / "core" / "outbound"):
            found[path.relative_to(ROOT).as_posix()] = network
    assert found == NETWORK_ELSEWHERE


def test_no_module_imports_something_for_type_checkers_alone():
    """What is imported when types are checked is imported when the product runs, so that a circle shows."""
    modules = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT))
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING")
        or (isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING")
    }
    assert found == set()
