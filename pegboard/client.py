"""The command line over REST: pins, publishes, promotes, exports, and checks a lock file, from anywhere.

    python -m pegboard.client check pegboard.lock.json

It imports nothing but Python's own library, so that a copy of this one file runs in any pipeline. The status
is 0 when all is well, 1 when Pegboard says no (a check failed, a lock file is behind a breaking change),
and 2 when it could not be asked: bad usage, no key, no connection.
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

FINE, REFUSED, NOT_ASKED = 0, 1, 2
MAX_LOCK_FILE = 900_000  # a body of REST has at most 1 MB
# A release with all its schemas fits many times; the rest is not Pegboard's answer.
MAX_REPLY = 100_000_000
# Publishing an agent of hundreds of tools takes seconds.
TIMEOUT = 60
# What Pegboard says of how things stand, with these; everything else is about the request.
SAYS_NO = frozenset((409, 410, 412))
BESIDE_FORMATS = ("lock", "bundle")
# What reading an answer raises that is not of the expected form.
UNEXPECTED = (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError)


class CommandError(Exception):
    """A sentence for the user and the exit status; `document` is what Pegboard answered."""

    def __init__(self, message: str, status: int = NOT_ASKED, document: Any = None) -> None:
        super().__init__(message)
        self.status, self.document = status, document


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key goes to the address that was named, and to no other."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class Server:
    def __init__(self, url: str, key: str) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
        except ValueError as error:
            raise CommandError(f"{url} is no address: {error}.") from None
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise CommandError("Name the address of Pegboard with --url or PEGBOARD_URL: https://HOST.")
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise CommandError("Put an API key into PEGBOARD_API_KEY; the page of your account makes them.")
        self.url, self.key = url.rstrip("/"), key
        self.opener = urllib.request.build_opener(_NoRedirects)

    def ask(self, method: str, path: str, body: Any = None, **query: str | int) -> Any:
        reply = self.ask_bytes(method, path, body, **query)
        try:
            return json.loads(reply)
        except (ValueError, RecursionError):
            raise CommandError(f"{self.url} answers no JSON. Is it the address of Pegboard?") from None

    def ask_bytes(self, method: str, path: str, body: Any = None, **query: str | int) -> bytes:
        url = f"{self.url}/api/v1/{path}"
        if query:
            url += f"?{urllib.parse.urlencode(query)}"
        headers = {"Authorization": f"Bearer {self.key}", "User-Agent": "pegboard-client"}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - __init__ has looked
        try:
            with self.opener.open(request, timeout=TIMEOUT) as reply:
                read: bytes = reply.read(MAX_REPLY + 1)
        except urllib.error.HTTPError as error:
            raise _refusal_of(error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = error.reason if isinstance(error, urllib.error.URLError) else error
            raise CommandError(f"{self.url} could not be asked: {why}.") from None
        if len(read) > MAX_REPLY:
            raise CommandError("The answer is larger than 100 MB.")
        return read


def _refusal_of(error: urllib.error.HTTPError) -> CommandError:
    try:
        body: bytes = error.read(MAX_REPLY)
    except (OSError, http.client.HTTPException):
        body = b""
    return refusal(error.code, body, error.headers.get("Location", ""))


def refusal(status: int, body: bytes, location: str = "") -> CommandError:
    """For an answer that is an error."""
    if location:
        return CommandError(f"Pegboard has another address: it leads to {location}. Name that one.")
    try:
        answered = json.loads(body)
        says = " ".join(dict.fromkeys(map(str, [answered["message"], *answered.get("fields", {}).values()])))
        failed = [each for each in answered.get("checks", ()) if each["severity"] == "error"]
        says = "\n".join([says, *(f"{each['code']}: {each['message']}" for each in failed)])
    except UNEXPECTED:
        return CommandError(f"The address answers {status} and no reason. Is it Pegboard's?")
    return CommandError(says, REFUSED if status in SAYS_NO else NOT_ASKED, answered)


def pin(server: Server, given: argparse.Namespace) -> tuple[Any, str, int]:
    tool, address = _tool_id(server, given), f"agents/{_quoted(given.agent)}/pins/"
    wanted = {"version": given.version, "alias": given.alias}
    wanted = {member: value for member, value in wanted.items() if value is not None}
    try:
        made = server.ask("POST", address, {"tool": tool, **wanted})
        return made, f"Pinned {made['name']} at version {made['version_name']}.", FINE
    except CommandError as error:
        if not isinstance(error.document, dict) or error.document.get("code") != "already_pinned":
            raise
    row = next(each for each in _pages(server, address) if each["tool"] == tool)
    if wanted:
        row = server.ask("PATCH", f"{address}{row['id']}/", wanted)
    return row, f"{row['name']} is pinned at version {row['version_name']}.", FINE


def _tool_id(server: Server, given: argparse.Namespace) -> int:
    # A number alone is the catalog's own; with a vendor beside it, it may be that vendor's.
    if given.tool.isascii() and given.tool.isdecimal() and not given.vendor:
        return int(given.tool)
    query = {"q": given.tool, "limit": 100} | ({"vendor": given.vendor} if given.vendor else {})
    rows = server.ask("GET", "tools/", **query)["results"]
    # The vendor's own id first, because a name may be that of several tools.
    for member in ("tool_id", "name"):
        found = [row for row in rows if row[member] == given.tool]
        if len(found) == 1:
            return int(found[0]["id"])
        if found:
            which = ", ".join(f"{row['id']} of {row['vendor']}" for row in found)
            raise CommandError(f"Several tools are called “{given.tool}”: {which}. Say --vendor.")
    raise CommandError(f"No tool is called “{given.tool}”. Look for it on the page Tools.")


def _pages(server: Server, path: str) -> Any:
    cursor: dict[str, str] = {}
    while True:
        page = server.ask("GET", path, **cursor)
        yield from page["results"]
        if not page["next"]:
            return
        cursor = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page["next"]).query))


def publish(server: Server, given: argparse.Namespace) -> tuple[Any, str, int]:
    body = {"note": given.note, "reason": given.reason, "accept": given.accept}
    if given.channel:
        body["channel"] = given.channel
    try:
        made = server.ask("POST", f"agents/{_quoted(given.agent)}/releases/", body)
    except CommandError as error:
        if given.allow_unchanged and (error.document or {}).get("code") == "nothing_changed":
            return error.document, str(error), FINE
        raise
    leads = f" “{given.channel}” leads to it." if given.channel else ""
    return made, f"Published release {made['number']}, sha256:{made['digest']}.{leads}", FINE


def promote(server: Server, given: argparse.Namespace) -> tuple[Any, str, int]:
    body = {"release": given.release, "note": given.note}
    if given.expected is not None:
        body["expected"] = given.expected
    address = f"agents/{_quoted(given.agent)}/channels/{_quoted(given.channel)}/"
    moved = server.ask("PUT", address, body)
    return moved, f"“{moved['name']}” leads to release {moved['release']}.", FINE


def export(server: Server, given: argparse.Namespace) -> tuple[Any, str, int]:
    if given.json and not given.output:
        raise CommandError("With --json, say with --output which file the document goes into.")
    address = f"agents/{_quoted(given.agent)}/releases/{_quoted(given.release)}/"
    if given.format in BESIDE_FORMATS:
        body = server.ask_bytes("GET", f"{address}{given.format}/")
    else:
        partial = {"partial": "1"} if given.partial else {}
        body = server.ask_bytes("GET", f"{address}tools/", format=given.format, **partial)
    if not given.output:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        return None, "", FINE
    try:
        Path(given.output).write_bytes(body)
    except OSError as error:
        raise CommandError(f"{given.output} cannot be written: {error.strerror}.") from None
    told = {"file": given.output, "format": given.format, "bytes": len(body)}
    return told | {"sha256": hashlib.sha256(body).hexdigest()}, f"Wrote {given.output}.", FINE


def check(server: Server, given: argparse.Namespace) -> tuple[Any, str, int]:
    try:
        with open(given.lock_file, "rb") as file:
            text = file.read(MAX_LOCK_FILE + 1)
        locked = json.loads(text) if len(text) <= MAX_LOCK_FILE else None
    except OSError as error:
        raise CommandError(f"{given.lock_file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise CommandError(f"{given.lock_file} is no JSON.") from None
    if not isinstance(locked, dict) or not isinstance(locked.get("agent"), str):
        raise CommandError(f"{given.lock_file} is no lock file: “export AGENT lock” writes one.")
    found = server.ask("POST", f"agents/{_quoted(locked['agent'])}/check/", locked)
    says = f"{given.lock_file} of release {found['locked']} is {found['status']}."
    lines = [says, *(f"{each['class']}: {each['message']}" for each in found["changes"])]
    stops = ("breaking", "behind") if given.strict else ("breaking",)
    return found, "\n".join(lines), REFUSED if found["status"] in stops else FINE


def _quoted(part: str) -> str:
    # Also a part that is “..”, which would lead to another call.
    return urllib.parse.quote(part, safe=":").replace(".", "%2E")


def _agent(one: argparse.ArgumentParser) -> None:
    one.add_argument("agent", help="its short name, as in its address")


def _pin_options(one: argparse.ArgumentParser) -> None:
    _agent(one)
    one.add_argument("tool", help="its number in the catalog, the vendor's id, or its name")
    one.add_argument("--vendor", default="", help="the short name of the vendor that has it")
    one.add_argument("--version", help="as the vendor numbers it; the current one, unless told")
    one.add_argument("--alias", help="what a model shall call it")


def _publish_options(one: argparse.ArgumentParser) -> None:
    _agent(one)
    one.add_argument("--note", default="")
    one.add_argument("--channel", default="", help="the channel that is to lead to it, such as live")
    one.add_argument("--accept", action="append", default=[], metavar="CODE", help="a check that may fail")
    one.add_argument("--reason", default="", help="why it may")
    one.add_argument("--allow-unchanged", action="store_true", help="0 when there is nothing new to publish")


def _promote_options(one: argparse.ArgumentParser) -> None:
    _agent(one)
    one.add_argument("channel")
    one.add_argument("release", help="a number, sha256:DIGEST, or another channel")
    one.add_argument("--note", default="")
    one.add_argument("--expected", type=int, metavar="N", help="fail if it does not lead to release N now")


def _export_options(one: argparse.ArgumentParser) -> None:
    _agent(one)
    one.add_argument("format", help="such as mcp or openai-chat; also: lock, bundle")
    one.add_argument("--release", default="live", help="number, sha256:DIGEST or channel")
    one.add_argument("--output", "-o", metavar="FILE", help="standard output, unless told")
    one.add_argument("--partial", action="store_true", help="without the tools that the format cannot carry")


def _check_options(one: argparse.ArgumentParser) -> None:
    one.add_argument("lock_file", metavar="LOCKFILE")
    one.add_argument("--strict", action="store_true", help="1 for any move, not for a breaking one alone")


Run = Callable[[Server, argparse.Namespace], tuple[Any, str, int]]


class Command(NamedTuple):
    run: Run
    says: str
    add_options: Callable[[argparse.ArgumentParser], None]


COMMANDS = {
    "pin": Command(pin, "Pins a tool, or moves a pin to --version.", _pin_options),
    "publish": Command(publish, "Makes a release of the agent as it is now.", _publish_options),
    "promote": Command(promote, "Leads a channel to a release, forwards or back.", _promote_options),
    "export": Command(
        export, "Writes a release in one format, its lock file or its bundle.", _export_options
    ),
    "check": Command(check, "Says what has moved since a lock file was written.", _check_options),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message[:1].upper()}{message[1:]}. “{self.prog} --help” tells what there is.")


def _parser() -> argparse.ArgumentParser:
    every = _Parser(add_help=False)
    every.add_argument("--json", action="store_true", help="print what Pegboard answers, as JSON")
    every.add_argument("--url", default=os.environ.get("PEGBOARD_URL", ""), help="or in PEGBOARD_URL")
    parser = _Parser(prog="pegboard", description="The API key is read from PEGBOARD_API_KEY.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    for name, command in COMMANDS.items():
        one = commands.add_parser(name, help=command.says, description=command.says, parents=[every])
        one.set_defaults(run=command.run)
        command.add_options(one)
    return parser


def main(arguments: list[str] | None = None) -> int:
    try:
        given = _parser().parse_args(arguments)
    except CommandError as error:
        return _tell_refusal(error, is_json=False)
    return carry_out(
        given.run, lambda: Server(given.url, os.environ.get("PEGBOARD_API_KEY", "").strip()), given
    )


def carry_out(run: Run, open_server: Callable[[], Server], given: argparse.Namespace) -> int:
    """Prints what came of it, and returns the exit status."""
    try:
        document, says, status = run(open_server(), given)
    except CommandError as error:
        return _tell_refusal(error, is_json=given.json)
    except UNEXPECTED:
        sys.stderr.write("The address answers in a form that this command does not know. Is it Pegboard's?\n")
        return NOT_ASKED
    except (KeyboardInterrupt, BrokenPipeError):
        return NOT_ASKED
    if given.json and document is not None:
        sys.stdout.write(json.dumps(document) + "\n")
    elif says:
        sys.stdout.write(_for_a_terminal(says) + "\n")
    return status


def _tell_refusal(error: CommandError, *, is_json: bool) -> int:
    if is_json:
        document = error.document or {"code": "not_asked", "message": str(error)}
        sys.stdout.write(json.dumps(document) + "\n")
    sys.stderr.write(_for_a_terminal(str(error)) + "\n")
    return error.status


def _for_a_terminal(text: str) -> str:
    # Vendors' words are in the sentences; nothing in them may steer a terminal.
    return "".join(each if each.isprintable() or each == "\n" else "�" for each in text)


if __name__ == "__main__":
    # Sentences hold quotation marks that the locale of a pipeline may lack.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main())
