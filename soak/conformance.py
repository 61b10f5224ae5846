"""The official conformance suite of MCP, at a reference server and through a release of its tools.

MCP_CONFORMANCE is the command of the suite, which needs Node 22: `npm install
@modelcontextprotocol/conformance@0.2.0-alpha.12` in a directory, then "node DIRECTORY/node_modules/
@modelcontextprotocol/conformance/dist/index.js". A check that passes at the server and not through the
release is a violation, unless `DIFFERENCES` has a reason for it.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from soak._key_adder import adding_key
from soak.frame import Field
from tests.faults.stand import NO_LIMITS, Stand, wait_for

REVISIONS = ("2025-11-25", "2026-07-28")
PATIENCE = 300
# By the id of a check: why a release answers otherwise than its vendor.
_NO_SESSION = "A release keeps no sessions: it answers 405 to the end of one, as servers may."
_OWN_LIST = "The list of a release changes when a designer publishes, not when the vendor's list does."
_NO_UPDATES = (
    "A release keeps no sessions on which updates could be sent; `subscriptions/listen` reports them."
)
# docs/runtimes.md lists the same.
DIFFERENCES = {
    "resources-subscribe": _NO_UPDATES,
    "resources-unsubscribe": _NO_UPDATES,
    "server-session-delete-accepted": _NO_SESSION,
    "server-session-terminated-returns-404": _NO_SESSION,
    "sep-2575-server-sends-prompts-list-changed-on-subscription": _OWN_LIST,
    "sep-2575-server-sends-tools-list-changed-on-subscription": _OWN_LIST,
}


def storm(field: Field) -> None:
    command = shlex.split(os.environ.get("MCP_CONFORMANCE", ""))
    if not command:
        field.skip("MCP_CONFORMANCE is not set: the command of the conformance suite of MCP")
        return
    # A vendor that asks waits in a process of its own for the answer.
    stand = Stand(field.servers, field.environment | NO_LIMITS, field.directory)
    try:
        with reference_server() as vendor:
            key = publish_tools_of(vendor)
            stand.over_the_lines["WEB_THREADS"] = "32"
            stand.begin_web()
            wait_for(lambda: stand.ask("/healthz").status == 200, 60, "the first page")
            with adding_key(stand.port, "/serve/reference/live/mcp", key) as release:
                for revision in REVISIONS:
                    compare(field, command, revision, vendor, release)
    finally:
        stand.stop()


def compare(field: Field, command: list[str], revision: str, vendor: str, release: str) -> None:
    at_vendor = run_suite(command, revision, vendor, field.directory / f"vendor-{revision}")
    through_release = run_suite(command, revision, release, field.directory / f"release-{revision}")
    passed = [check for check, fault in through_release.items() if fault is None]
    field.figure(f"{revision}, at the vendor", f"{len(at_vendor)} checks")
    field.figure(f"{revision}, through the release", f"{len(passed)} of {len(through_release)} passed")
    for check, fault in at_vendor.items():
        field.expect(fault is None, f"{revision}, at the vendor itself: {check}: {fault}")
    for check, fault in through_release.items():
        if fault is not None and at_vendor.get(check) is None:
            reason = DIFFERENCES.get(check.split(" ")[1])
            if reason:
                field.figure(f"{revision}, {check} differs", reason)
            else:
                field.violation(f"{revision}: {check}: {fault}")


def run_suite(command: list[str], revision: str, url: str, directory: Path) -> dict[str, str | None]:
    """Return by check what is wrong with it, None where it passed."""
    options = ["server", "--url", url, "--suite", "all", "--spec-version", revision, "-o", str(directory)]
    subprocess.run([*command, *options], capture_output=True, check=False, timeout=PATIENCE)
    checks: dict[str, str | None] = {}
    for path in sorted(directory.glob("*/checks.json")):
        scenario = path.parent.name.removeprefix("server-")[: -len("-2026-11-27T00-00-00-000Z")]
        for check in json.loads(path.read_text()):
            if check["status"] in ("SUCCESS", "FAILURE", "WARNING", "SKIPPED"):
                is_fault = check["status"] != "SUCCESS"
                fault = f"{check['status'].lower()}: {check.get('errorMessage', '')}" if is_fault else None
                number = sum(each.startswith(f"{scenario} {check['id']} ") for each in checks) + 1
                checks[f"{scenario} {check['id']} {number}"] = fault
    return checks


@contextmanager
def reference_server() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.mcp_reference"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.terminate()


def publish_tools_of(url: str) -> str:
    """Publish a release with all that the vendor offers, and return an API key that may run it."""
    from catalog.enumeration import runs
    from catalog.models import Tool
    from catalog.models.runs import Trigger
    from catalog.models.tools import ItemKind
    from designer.agents import agent_keys, agents
    from designer.errors import ChecksFailedError
    from designer.pins import pins
    from designer.releases import publishing
    from tests.factories import make_endpoint, make_user

    owner = make_user("admin")
    endpoint = make_endpoint(url=url, protocol="mcp")
    runs.perform(runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    agent = agents.create_agent(actor=owner, name="reference", slug="reference")
    for tool in Tool.objects.filter(endpoint=endpoint).order_by("pk"):
        # Clients ask for resources by address, and the names of these are no identifiers.
        alias = tool.name if tool.kind in (ItemKind.TOOL, ItemKind.PROMPT) else ""
        pins.pin_tool(agent, actor=owner, tool=tool, alias=alias)
    try:
        publishing.publish(agent, actor=owner, channel="live")
    except ChecksFailedError as error:
        codes = {check.code for check in error.checks}
        publishing.publish(agent, actor=owner, channel="live", accept=codes, reason="a test")
    key: str = agent_keys.issue(
        owner, actor=owner, name="suite", scopes=["runtime", "invoke"], agents=[agent]
    )[1]
    return key
