"""A command line client for REST: pin, publish, promote, export, and check a lock file.

    python -m pegboard.client check pegboard.lock.json

It imports the standard library only, so a copy of this file runs in any pipeline. The exit status is 0 for
success, 1 if Pegboard refuses (a check failed, a lock file is behind a breaking change), and 2 if the request
failed: wrong usage, no key, no connection.
"""

import argparse
import hashlib
import http.client
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

SUCCESS, REFUSED, FAILED = 0, 1, 2
MAX_LOCK_FILE = 900_000  # a body of REST has at most 1 MB
# Far larger than any release; a longer reply is not from Pegboard.
MAX_REPLY = 100_000_000
# Publishing an agent of hundreds of tools takes seconds.
TIMEOUT = 60
# Statuses of refusals because of the state of the agent. Other errors are about the request.
REFUSAL_STATUSES = frozenset((409, 410, 412))
FILE_KINDS = ("lock", "bundle")
# Errors from reading a reply of an unexpected form.
UNEXPECTED = (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError)


class CommandError(Exception):
    """A sentence for the user and the exit status. document: the reply of Pegboard."""

    def __init__(self, message: str, status: int = FAILED, document: Any = None) -> None:
        super().__init__(message)
        self.status, self.document = status, document


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Sends the key to the configured address only."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class PegboardServer:
    def __init__(self, url: str, key: str) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
        except ValueError as error:
            raise CommandError(f"{url} is not an address: {error}.") from None
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise CommandError("Set the address of Pegboard with --url or PEGBOARD_URL: https://HOST.")
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise CommandError("Set PEGBOARD_API_KEY to an API key. Create one on the page of your account.")
        self.url, self.key = url.rstrip("/"), key
        self.opener = urllib.request.build_opener(_NoRedirects)

    def request_json(self, method: str, path: str, body: Any = None, **query: str | int) -> Any:
        reply = self.request_bytes(method, path, body, **query)
        try:
            return json.loads(reply)
        except (ValueError, RecursionError):
            raise CommandError(
                f"{self.url} did not return JSON. Check that it is the address of Pegboard."
            ) from None

    def request_bytes(self, method: str, path: str, body: Any = None, **query: str | int) -> bytes:
        url = f"{self.url}/api/v1/{path}"
        if query:
            url += f"?{urllib.parse.urlencode(query)}"
        headers = {"Authorization": f"Bearer {self.key}", "User-Agent": "pegboard-client"}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - __init__ checks the scheme
        try:
            with self.opener.open(request, timeout=TIMEOUT) as reply:
                content: bytes = reply.read(MAX_REPLY + 1)
        except urllib.error.HTTPError as error:
            try:
                content = error.read(MAX_REPLY)
            except (OSError, http.client.HTTPException):
                content = b""
            raise refusal(error.code, content, error.headers.get("Location", "")) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            raise CommandError(f"{self.url} could not be reached: {cause}.") from None
        if len(content) > MAX_REPLY:
            raise CommandError("The reply is larger than 100 MB.")
        return content

    def find_tool(self, options: argparse.Namespace) -> int:
        # A number without a vendor is an id of the catalog; with a vendor it may be the vendor's own id.
        if options.tool.isascii() and options.tool.isdecimal() and not options.vendor:
            return int(options.tool)
        query = {"q": options.tool, "limit": 100} | ({"vendor": options.vendor} if options.vendor else {})
        rows = self.request_json("GET", "tools/", **query)["results"]
        # The vendor's own id first, because a name may be that of several tools.
        for member in ("tool_id", "name"):
            matches = [row for row in rows if row[member] == options.tool]
            if len(matches) == 1:
                return int(matches[0]["id"])
            if matches:
                choices = ", ".join(f"{row['id']} of {row['vendor']}" for row in matches)
                raise CommandError(f"Several tools are called “{options.tool}”: {choices}. Add --vendor.")
        raise CommandError(f"No tool is called “{options.tool}”. Search for it on the Tools page.")

    def rows(self, path: str) -> Any:
        cursor: dict[str, str] = {}
        while True:
            page = self.request_json("GET", path, **cursor)
            yield from page["results"]
            if not page["next"]:
                return
            cursor = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page["next"]).query))


def refusal(status: int, body: bytes, location: str = "") -> CommandError:
    """Return the error for a reply with an error status."""
    if location:
        return CommandError(f"Pegboard redirects to {location}. Use that address.")
    try:
        document = json.loads(body)
        sentences = map(str, [document["message"], *document.get("fields", {}).values()])
        failed = [check for check in document.get("checks", ()) if check["severity"] == "error"]
        lines = [
            " ".join(dict.fromkeys(sentences)),
            *(f"{check['code']}: {check['message']}" for check in failed),
        ]
        message = "\n".join(lines)
    except UNEXPECTED:
        return CommandError(
            f"The address returned {status} without a reason. Check that it is the address of Pegboard."
        )
    return CommandError(message, REFUSED if status in REFUSAL_STATUSES else FAILED, document)


def pin(server: PegboardServer, options: argparse.Namespace) -> tuple[Any, str, int]:
    tool, address = server.find_tool(options), f"agents/{_quote_path_part(options.agent)}/pins/"
    choices = {"version": options.version, "alias": options.alias}
    choices = {member: value for member, value in choices.items() if value is not None}
    try:
        created = server.request_json("POST", address, {"tool": tool, **choices})
        return created, f"Pinned {created['name']} at version {created['version_name']}.", SUCCESS
    except CommandError as error:
        if not isinstance(error.document, dict) or error.document.get("code") != "already_pinned":
            raise
    row = next(pin for pin in server.rows(address) if pin["tool"] == tool)
    if choices:
        row = server.request_json("PATCH", f"{address}{row['id']}/", choices)
    return row, f"{row['name']} is pinned at version {row['version_name']}.", SUCCESS


def publish(server: PegboardServer, options: argparse.Namespace) -> tuple[Any, str, int]:
    body = {"note": options.note, "reason": options.reason, "accept": options.accept}
    if options.channel:
        body["channel"] = options.channel
    try:
        created = server.request_json("POST", f"agents/{_quote_path_part(options.agent)}/releases/", body)
    except CommandError as error:
        if options.allow_unchanged and (error.document or {}).get("code") == "nothing_changed":
            return error.document, str(error), SUCCESS
        raise
    channel = f" “{options.channel}” points to it." if options.channel else ""
    return created, f"Published release {created['number']}, sha256:{created['digest']}.{channel}", SUCCESS


def promote(server: PegboardServer, options: argparse.Namespace) -> tuple[Any, str, int]:
    body = {"release": options.release, "note": options.note}
    if options.expected is not None:
        body["expected"] = options.expected
    address = f"agents/{_quote_path_part(options.agent)}/channels/{_quote_path_part(options.channel)}/"
    moved = server.request_json("PUT", address, body)
    return moved, f"“{moved['name']}” points to release {moved['release']}.", SUCCESS


def export(server: PegboardServer, options: argparse.Namespace) -> tuple[Any, str, int]:
    if options.json and not options.output:
        raise CommandError("With --json, name a file for the document with --output.")
    address = f"agents/{_quote_path_part(options.agent)}/releases/{_quote_path_part(options.release)}/"
    if options.format in FILE_KINDS:
        body = server.request_bytes("GET", f"{address}{options.format}/")
    else:
        partial = {"partial": "1"} if options.partial else {}
        body = server.request_bytes("GET", f"{address}tools/", format=options.format, **partial)
    if not options.output:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        return None, "", SUCCESS
    try:
        Path(options.output).write_bytes(body)
    except OSError as error:
        raise CommandError(f"{options.output} cannot be written: {error.strerror}.") from None
    result = {"file": options.output, "format": options.format, "bytes": len(body)}
    return result | {"sha256": hashlib.sha256(body).hexdigest()}, f"Wrote {options.output}.", SUCCESS


def check(server: PegboardServer, options: argparse.Namespace) -> tuple[Any, str, int]:
    try:
        with open(options.lock_file, "rb") as file:
            text = file.read(MAX_LOCK_FILE + 1)
        locked = json.loads(text) if len(text) <= MAX_LOCK_FILE else None
    except OSError as error:
        raise CommandError(f"{options.lock_file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise CommandError(f"{options.lock_file} is not JSON.") from None
    if not isinstance(locked, dict) or not isinstance(locked.get("agent"), str):
        raise CommandError(f"{options.lock_file} is not a lock file. “export AGENT lock” writes one.")
    result = server.request_json("POST", f"agents/{_quote_path_part(locked['agent'])}/check/", locked)
    summary = f"{options.lock_file} of release {result['locked']} is {result['status']}."
    lines = [summary, *(f"{change['class']}: {change['message']}" for change in result["changes"])]
    failing = ("breaking", "behind") if options.strict else ("breaking",)
    return result, "\n".join(lines), REFUSED if result["status"] in failing else SUCCESS


def _quote_path_part(part: str) -> str:
    # Also quotes “..”, which would change the path.
    return urllib.parse.quote(part, safe=":").replace(".", "%2E")


Run = Callable[[PegboardServer, argparse.Namespace], tuple[Any, str, int]]


Option = tuple[tuple[str, ...], dict[str, Any]]


class Command(NamedTuple):
    run: Run
    description: str
    options: tuple[Option, ...]

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        for names, settings in self.options:
            parser.add_argument(*names, **settings)


def _build_option(*names: str, **settings: Any) -> Option:
    return names, settings


AGENT = _build_option("agent", help="the slug of the agent, as in its URL")


COMMANDS = {
    "pin": Command(
        pin,
        "Pins a tool, or moves a pin to --version.",
        (
            AGENT,
            _build_option("tool", help="the id in the catalog, the vendor's id, or the name"),
            _build_option("--vendor", default="", help="the slug of the vendor"),
            _build_option("--version", help="the vendor's version label; the current version by default"),
            _build_option("--alias", help="the name for the model"),
        ),
    ),
    "publish": Command(
        publish,
        "Publishes a release of the agent.",
        (
            AGENT,
            _build_option("--note", default=""),
            _build_option("--channel", default="", help="the channel that will point to it, such as live"),
            _build_option(
                "--accept", action="append", default=[], metavar="CODE", help="accept a failed check"
            ),
            _build_option("--reason", default="", help="the reason for accepting it"),
            _build_option(
                "--allow-unchanged", action="store_true", help="exit with 0 if nothing has changed"
            ),
        ),
    ),
    "promote": Command(
        promote,
        "Points a channel to a release.",
        (
            AGENT,
            _build_option("channel"),
            _build_option("release", help="a number, sha256:DIGEST, or another channel"),
            _build_option("--note", default=""),
            _build_option(
                "--expected", type=int, metavar="N", help="fail unless the channel points to release N"
            ),
        ),
    ),
    "export": Command(
        export,
        "Writes a release in one format, its lock file or its bundle.",
        (
            AGENT,
            _build_option("format", help="a format such as mcp or openai-chat; or lock, bundle"),
            _build_option("--release", default="live", help="number, sha256:DIGEST or channel"),
            _build_option("--output", "-o", metavar="FILE", help="standard output by default"),
            _build_option("--partial", action="store_true", help="omit tools that the format cannot express"),
        ),
    ),
    "check": Command(
        check,
        "Reports changes since a lock file was written.",
        (
            _build_option("lock_file", metavar="LOCKFILE"),
            _build_option(
                "--strict", action="store_true", help="exit with 1 for every change, not only a breaking one"
            ),
        ),
    ),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message[:1].upper()}{message[1:]}. Run “{self.prog} --help” for the options.")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line. It raises CommandError for options that it cannot read."""
    every = _Parser(add_help=False)
    every.add_argument("--json", action="store_true", help="print the reply as JSON")
    every.add_argument("--url", default=os.environ.get("PEGBOARD_URL", ""), help="or in PEGBOARD_URL")
    parser = _Parser(prog="pegboard", description="The API key is read from PEGBOARD_API_KEY.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    for name, command in COMMANDS.items():
        one = commands.add_parser(
            name, help=command.description, description=command.description, parents=[every]
        )
        one.set_defaults(run=command.run)
        command.add_options(one)
    return parser


def main(arguments: list[str] | None = None) -> int:
    try:
        options = make_parser().parse_args(arguments)
    except CommandError as error:
        return _report_error(error, is_json=False)
    return carry_out(
        options.run,
        lambda: PegboardServer(options.url, os.environ.get("PEGBOARD_API_KEY", "").strip()),
        options,
    )


def carry_out(run: Run, open_server: Callable[[], PegboardServer], options: argparse.Namespace) -> int:
    """Run a command, print its result, and return the exit status."""
    try:
        document, message, status = run(open_server(), options)
    except CommandError as error:
        return _report_error(error, is_json=options.json)
    except UNEXPECTED:
        sys.stderr.write("The reply has an unknown form. Check that it is the address of Pegboard.\n")
        return FAILED
    except (KeyboardInterrupt, BrokenPipeError):
        return FAILED
    if options.json and document is not None:
        sys.stdout.write(json.dumps(document) + "\n")
    elif message:
        sys.stdout.write(_for_a_terminal(message) + "\n")
    return status


def _report_error(error: CommandError, *, is_json: bool) -> int:
    if is_json:
        document = error.document or {"code": "not_asked", "message": str(error)}
        sys.stdout.write(json.dumps(document) + "\n")
    sys.stderr.write(_for_a_terminal(str(error)) + "\n")
    return error.status


def _for_a_terminal(text: str) -> str:
    # Sentences contain text of vendors, which must not control the terminal.
    return "".join(char if char.isprintable() or char == "\n" else "�" for char in text)


if __name__ == "__main__":
    # Sentences contain quotation marks that the locale of a pipeline may lack.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main())
