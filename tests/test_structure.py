"""Rules for the dependencies of modules, beyond the layers that import-linter checks."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("core", "people", "catalog", "protocols", "designer", "execution", "serving", "pegboard", "demo")


def test_no_modules_import_each_other_in_a_circle():
    """Imports for types alone count: what needs a module for its types belongs beside it or below it."""
    graph = grimp.build_graph(*ROOMS)
    imports_by_module = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(imports_by_module) > 400
    circle = []
    try:
        TopologicalSorter(imports_by_module).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert circle == []


# Modules that open connections, and the product's modules that may import them beside core/outbound.
NETWORK = (
    "aiohttp", "asyncio", "ftplib", "http.client", "httpx", "httpx2", "imaplib", "poplib", "requests",
    "smtplib", "socket", "ssl", "urllib.request", "urllib3", "websockets", "xmlrpc.client",
)  # fmt: skip
NETWORK_ELSEWHERE = {
    "catalog/meaning/client.py": {"socket"},  # a file of this host: the process that compares meanings
    "catalog/notifications/mail.py": {"smtplib"},  # the errors of the mail server that the deployment names
    "core/mail_backend.py": {"smtplib", "ssl"},  # types of what Django and core/outbound make
    "serving/serve/views.py": {"socket"},  # checks if the caller has disconnected
    "pegboard/client.py": {"http.client", "urllib.request"},  # the command line, where its user is
    "pegboard/gunicorn.py": {"socket"},  # listens
    "pegboard/local/product.py": {"http.client", "socket"},  # listens, and looks at its own page
    "pegboard/ops/doctor/outside.py": {"smtplib", "ssl"},  # the errors of the mail server
    "pegboard/web/buffering_worker.py": {"socket"},  # listens
}


def test_only_the_outbound_client_opens_connections():
    """No request may avoid the address rule, the proxy and the authorities of the installation."""
    imports_by_path = {}
    roots = {package.partition(".")[0] for package in NETWORK}
    for path in (path for room in ROOMS if room != "demo" for path in (ROOT / room).rglob("*.py")):
        if not any(root in path.read_text() for root in roots):
            continue
        imported = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        network = {
            package for package in NETWORK for name in imported if f"{name}.".startswith(f"{package}.")
        }
        if network and not path.is_relative_to(ROOT / "core" / "outbound"):
            imports_by_path[path.relative_to(ROOT).as_posix()] = network
    assert imports_by_path == NETWORK_ELSEWHERE


# Keywords by which a module outside core/schema would follow or merge a schema on its own.
SCHEMA_KEYWORDS = {"properties", "patternProperties", "required", "allOf", "$ref", "$defs"}
SCHEMA_READERS_ELSEWHERE = {
    # They write a vendor's schema back as it came, which the internal form could not be.
    "protocols/parameters.py": "takes a schema apart into parameters and puts it together again",
    "protocols/definition.py": "takes a tool's branch apart into its inputs and its output",
    "protocols/openapi/": "cuts one operation out of a document, with the document's own spelling",
    # Members of these names in documents that are no JSON Schema.
    "protocols/a2t/document.py": "parameters of A2T",
    "protocols/mcp/context.py": "arguments of prompts",
}


def _reads_schemas(node):
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return _is_keyword(node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        is_read = node.func.attr in ("get", "pop", "setdefault")
        return is_read and bool(node.args) and _is_keyword(node.args[0])
    if isinstance(node, ast.Compare):
        return _is_keyword(node.left) and isinstance(node.ops[0], ast.In | ast.NotIn)
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "jsonschema_rs" in ast.unparse(node)
    return isinstance(node, ast.Constant) and node.value in ("~0", "~1")


def _is_keyword(node):
    return isinstance(node, ast.Constant) and node.value in SCHEMA_KEYWORDS


def test_only_the_kernel_reads_schemas():
    """A schema means the same for a model, a call and a comparison: core/schema."""
    readers = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        if room != "demo"
        for path in (ROOT / room).rglob("*.py")
        if not path.is_relative_to(ROOT / "core" / "schema")
        and any(map(_reads_schemas, ast.walk(ast.parse(path.read_text()))))
    }
    starts = tuple(SCHEMA_READERS_ELSEWHERE)
    assert {path for path in readers if not path.startswith(starts)} == set()
    assert [start for start in starts if not any(path.startswith(start) for path in readers)] == []


def test_no_module_imports_something_for_type_checkers_alone():
    """Imports for type checkers happen in the running product too, so that a circular import shows."""
    modules = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    modules_found = {
        str(path.relative_to(ROOT))
        for path in modules
        if "TYPE_CHECKING" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING")
        or (isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING")
    }
    assert modules_found == set()


# A `<pre>` that is not folded, and the reason.
OPEN_PRE = {
    "catalog/run_reply.html": "the page of a raw reply",
    "designer/_procedure_rendered.html": "the text of a procedure",
    "designer/_shown_raw.html": "it is under “Raw” on its page",
    "designer/key_made.html": "commands to copy",
    "designer/release.html": "an export that the reader has chosen to view",
    "designer/tool_raw.html": "the page of a raw document",
    "designer/tool_versions.html": "both documents, after the reader has asked for them",
    "pegboard/api_reference_group.html": "commands to copy",
    "pegboard/design.html": "the design system",
}


def test_json_on_a_page_is_folded():
    open_places = set()
    for path in (ROOT / "templates").rglob("*.html"):
        depth = 0
        for tag in re.findall(r"</?details|<pre", path.read_text()):
            depth += {"<details": 1, "</details": -1}.get(tag, 0)
            if tag == "<pre" and not depth:
                open_places.add(path.relative_to(ROOT / "templates").as_posix())
    assert open_places == set(OPEN_PRE)
