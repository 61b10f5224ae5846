"""The request that an operation asks for, made out of arguments, and the outputs out of its reply.

Pure: nothing is sent here. Styles follow https://spec.openapis.org/oas/v3.1.1.html#style-values and
the expansions of RFC 6570 behind them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from core import strict_json
from core.outbound.errors import ProtocolViolationError, RefusedError, printable
from core.outbound.reply import Reply
from core.strict_json import AnswerDocument
from protocols.calls import arguments as judged
from protocols.calls import outcomes
from protocols.list_pages import Note
from protocols.members import as_object
from protocols.openapi import multipart
from protocols.openapi.contents import bare, contents, is_form, is_json, is_lines, is_multipart, is_text
from protocols.openapi.cut import Cut, cut_of
from protocols.openapi.document import METHODS
from protocols.signature import Signature

# The characters that `allowReserved` leaves unescaped, without four that would end the value.
_RESERVED = ":/?@!$'()*,;[]"
_DEFAULT_STYLES = {"path": "simple", "header": "simple", "query": "form", "cookie": "form"}
_DELIMITERS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
# Servers cannot tell these delimiters from the same characters of a value. Commas in addresses are escaped.
_AMBIGUOUS = {"%20": " ", "%7C": "|", ".": "."}

# The maximum of lines in a reply of JSON lines. Each line has the limits of a whole reply.
MAX_LINES = 10_000
Pairs = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """A request of an operation. query: encoded. content: None without a body."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    content: bytes | None = None


class UnusableArgumentError(Exception):
    """A valid value that the request cannot express in the place of its parameter."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name
        self.reason = reason


def base_of(document: Mapping[str, Any], root: str) -> str:
    """Return the address for calls that the document states; `root` is where the document was read.

    Raises RefusedError when that is another server, to which no administrator has allowed calls.
    """
    url, server = server_of(document.get("servers"), root)
    if server and has_same_origin(server, root):
        return server
    raise RefusedError(
        "SERVER",
        f"The document sends calls to {_host_in_words(server or url)}, which is not where it was read. "
        "If that is right, enter it as “Address for calls” in the settings of this endpoint.",
    )


def base_of_operation(servers: Any, root: str, allowed: str) -> str:
    """Return the address of an operation, or of a path, that has servers of its own.

    `allowed` is the address that calls of this endpoint may go to. Raises RefusedError for another origin:
    an administrator who entered the address of the API did not mean the server of this operation.
    """
    url, server = server_of(servers, root)
    if server and has_same_origin(server, allowed):
        return server
    raise RefusedError(
        "SERVER",
        f"The document sends calls of this operation to {_host_in_words(server or url)}, which is not the "
        "server of this endpoint. Connect that address as an endpoint of its own to use the operation.",
    )


def server_of(servers: Any, root: str) -> tuple[str, str]:
    """Return the first server as the document writes it, and its absolute URL ("" if it has none)."""
    first = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], dict) else {}
    url = str(first.get("url", "/"))
    for name, variable in as_object(first.get("variables")).items():
        url = url.replace(f"{{{name}}}", str(as_object(variable).get("default", "")))
    try:
        # Connexion writes "" where it means the origin; by RFC 3986 that would be the document itself.
        server = urlsplit(urljoin(root, url.strip() or "/"))
        _origin_of(server)
    except ValueError:
        return url, ""
    return url, server._replace(query="", fragment="").geturl()


def has_own_server(servers: Any, document: Mapping[str, Any], root: str) -> bool:
    """Return whether an operation or a path has a server that is not the document's.

    Generators repeat the document's server there, with another description or in another notation.
    """
    return servers is not None and server_of(servers, root)[1] != server_of(document.get("servers"), root)[1]


def has_same_origin(url: str, other: str) -> bool:
    return _origin_of(urlsplit(url)) == _origin_of(urlsplit(other))


def _host_in_words(url: str) -> str:
    try:
        return printable(urlsplit(url).netloc or url, 80)
    except ValueError:
        return printable(url, 80)


def _origin_of(url: Any) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)


def build(signature: Signature, arguments: Mapping[str, Any]) -> OperationRequest:
    """Return the request of a call. Raises UnusableArgumentError."""
    signature_rest = signature.rest or {}
    cut = cut_of(signature_rest["document"])
    sent_arguments = judged.arguments_to_send(signature, arguments)
    renamed_inputs: dict[str, str] = signature_rest.get("called", {})
    path, _, fixed = cut.path.partition("#")[0].partition("?")
    queries, cookies, headers = ([fixed] if fixed else []), [], _accept_header(cut)
    for parameter in filter(cut.is_input, cut.parameters):
        name, place = parameter["name"], parameter["in"]
        argument = renamed_inputs.get(f"{place}:{name}", name)
        value = sent_arguments.pop(argument, None)
        if value is None:
            continue
        match place:
            case "path":
                path = path.replace(f"{{{name}}}", _in_path(parameter, value, argument))
            case "query":
                safe = _RESERVED if parameter.get("allowReserved") is True else ""
                queries.append(_join_pairs(_in_query(cut, parameter, value, argument, safe)))
            case "querystring":
                ((media, described), *_) = contents(parameter).items()
                encodings = as_object(as_object(described).get("encoding"))
                queries.append(_encode_form(value, encodings, argument) if is_form(media) else _escape(value))
            case "header":
                headers[name] = _in_header(parameter, value, argument)
            case "cookie":
                pairs = _in_query(cut, parameter, value, argument)
                cookies += [f"{cookie_name}={text}" for cookie_name, text in pairs]
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    content = _build_body(cut, signature_rest.get("body"), renamed_inputs, sent_arguments, headers)
    query = "&".join(part for part in queries if part)
    # Methods that OpenAPI names are written in small letters; others are sent as the document has them.
    method = cut.method.upper() if cut.method in (*METHODS, "query") else cut.method
    return OperationRequest(method, "/" + path.lstrip("/"), query, headers, content)


def _accept_header(cut: Cut) -> dict[str, str]:
    # Any type, if the successful responses of the operation are never JSON.
    answers = as_object(cut.operation.get("responses"))
    good = [
        contents(answer) for code, answer in answers.items() if code[:1] == "2" and isinstance(answer, dict)
    ]
    media_types = [media for content in good for media in content]
    return {"Accept": "*/*"} if media_types and not any(map(is_json, media_types)) else {}


def _style_of(parameter: Mapping[str, Any]) -> tuple[str, bool]:
    style = parameter.get("style") or _DEFAULT_STYLES[parameter["in"]]
    explode = parameter.get("explode")
    return style, explode if isinstance(explode, bool) else style == "form"


def _encode_by_content(parameter: Mapping[str, Any], value: Any) -> Any:
    # A parameter with `content` is sent as one JSON text.
    return _json_of(value) if contents(parameter) and not isinstance(value, str) else value


def _in_path(parameter: Mapping[str, Any], value: Any, argument: str) -> str:
    style, explode = _style_of(parameter)
    value = _encode_by_content(parameter, value)
    match style:
        case "matrix":
            text = "".join(
                f";{name}={one}" for name, one in _pairs(parameter["name"], value, explode=explode)
            )
        case "label":
            delimiter = "." if explode else ","
            _refuse_delimiter(argument, value, delimiter)
            text = "." + _flatten(value, delimiter, "=" if explode else ",")
        case _:
            text = _flatten(value, ",", "=" if explode else ",")
    if not text:
        raise UnusableArgumentError(argument, "must not be empty, because it is part of the address")
    return text


def _in_query(cut: Cut, parameter: Mapping[str, Any], value: Any, argument: str, safe: str = "") -> Pairs:
    style, explode = _style_of(parameter)
    if isinstance(value, dict) and (style, explode) == ("form", True):
        # Each member becomes a pair of its own, and must not have the name of another parameter.
        name, place = parameter["name"], parameter["in"]
        other_names = {other["name"] for other in cut.parameters if other["in"] == place} - {name}
        if taken := next((member for member in value if member in other_names), None):
            message = f"has the member “{printable(taken, 60)}”, which is another parameter of the request"
            raise UnusableArgumentError(argument, message)
    value = _encode_by_content(parameter, value)
    return _styled_pairs(parameter["name"], value, style, argument, explode=explode, safe=safe)


def _join_pairs(pairs: Pairs) -> str:
    return "&".join(f"{name}={value}" for name, value in pairs)


def _styled_pairs(
    name: str, value: Any, style: str, argument: str, *, explode: bool, safe: str = ""
) -> Pairs:
    if style == "deepObject" and isinstance(value, dict):
        return _deep_pairs(name, value, argument)
    delimiter = _DELIMITERS.get(style, ",")
    if not explode:
        _refuse_delimiter(argument, value, delimiter)
        safe = safe.replace(",", "") if isinstance(value, list | dict) else safe
    return _pairs(name, value, explode=explode, delimiter=delimiter, safe=safe)


def _refuse_delimiter(argument: str, value: Any, delimiter: str) -> None:
    """Raise UnusableArgumentError if a part of `value` contains the delimiter and escaping does not help.

    OpenAPI 3.1.1, appendix E (percent-encoding and form media types): the result is undefined.
    """
    ambiguous = _AMBIGUOUS.get(delimiter)
    if ambiguous is not None:
        _refuse_characters(argument, _texts_in(value), ambiguous)


def _refuse_characters(argument: str, texts: Iterable[str], characters: str) -> None:
    ambiguous = next((character for text in texts for character in characters if character in text), None)
    if ambiguous is not None:
        raise UnusableArgumentError(
            argument, f"has an entry with “{ambiguous}”, which its place in the request has no way to state"
        )


def _texts_in(value: Any) -> Iterator[str]:
    """Return the texts that a delimiter separates: entries of a list, names and values of an object."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from (name, _text_of(member))
    elif isinstance(value, list):
        yield from map(_text_of, value)


def _pairs(name: str, value: Any, *, explode: bool, delimiter: str = ",", safe: str = "") -> Pairs:
    if explode and isinstance(value, dict):
        return [(_escape(member), _escape(inner, safe)) for member, inner in value.items()]
    if explode and isinstance(value, list):
        return [(_escape(name), _escape(inner, safe)) for inner in value]
    if value in ([], {}):
        return []
    return [(_escape(name), _flatten(value, delimiter, delimiter, safe))]


def _deep_pairs(name: str, value: Any, argument: str) -> Pairs:
    # The specification defines one level only. Deeper levels use the form that common servers read.
    if isinstance(value, dict):
        _refuse_characters(argument, value, "[]")
        return [
            pair
            for member, inner in value.items()
            for pair in _deep_pairs(f"{name}[{member}]", inner, argument)
        ]
    if isinstance(value, list):
        return [pair for inner in value for pair in _deep_pairs(f"{name}[]", inner, argument)]
    return [(_escape(name), _escape(value))]


def _flatten(value: Any, delimiter: str, between: str, safe: str = "") -> str:
    # One text: the items of a list, or the names and values of an object, joined.
    if isinstance(value, dict):
        return delimiter.join(f"{_escape(m, safe)}{between}{_escape(v, safe)}" for m, v in value.items())
    if isinstance(value, list):
        return delimiter.join(_escape(inner, safe) for inner in value)
    return _escape(value, safe)


def _escape(value: Any, safe: str = "") -> str:
    return quote(_text_of(value), safe=safe, errors="replace")


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else _json_of(value)


def _json_of(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError as exc:
        raise RefusedError("NUMBER", "The request holds a number that JSON cannot carry.") from exc


def _in_header(parameter: Mapping[str, Any], value: Any, argument: str) -> str:
    # Nothing is escaped in a header.
    _, explode = _style_of(parameter)
    value = _encode_by_content(parameter, value)
    _refuse_characters(argument, _texts_in(value), ",")
    if explode and isinstance(value, dict):
        _refuse_characters(argument, value, "=")
    if isinstance(value, dict):
        return ",".join(
            f"{member}{'=' if explode else ','}{_text_of(inner)}" for member, inner in value.items()
        )
    return ",".join(map(_text_of, value)) if isinstance(value, list) else _text_of(value)


def _build_body(
    cut: Cut,
    body: Mapping[str, Any] | None,
    renamed_inputs: Mapping[str, str],
    sent_arguments: Mapping[str, Any],
    headers: dict[str, str],
) -> bytes | None:
    """Return the body, made from the arguments that are left in `sent_arguments`."""
    if body is None or not (sent_arguments or body.get("is_required")):
        return None
    media = body["media"]
    headers["Content-Type"] = "application/json" if "*" in media else media
    member_names = {
        argument: place.partition(":")[2]
        for place, argument in renamed_inputs.items()
        if place.startswith("body:")
    }
    members = {member_names.get(argument, argument): value for argument, value in sent_arguments.items()}
    value = members if body.get("is_object") else next(iter(sent_arguments.values()), None)
    described = as_object(contents(as_object(cut.operation.get("requestBody"))).get(media))
    encodings = as_object(described.get("encoding"))
    if is_form(media):
        if body.get("as"):
            return _encode_form(value, encodings, body["as"]).encode()
        try:
            return _encode_form(value, encodings).encode()
        except UnusableArgumentError as error:
            raise UnusableArgumentError(_argument_of(error.name, member_names), error.reason) from error
    if is_multipart(media):
        value, files, described_names = as_object(value), body.get("files", ()), body.get("known")
        if described_names is not None:
            files = [name for name in value if name in files or name not in described_names]
        try:
            boundary, content = multipart.encode(value, files, encodings)
        except multipart.UnreadableFileError as error:
            unread = "begins with “data:” and is no data URL that can be read"
            if body.get("as"):
                raise UnusableArgumentError(
                    body["as"], f"has “{printable(error.name)}”, which {unread}"
                ) from error
            raise UnusableArgumentError(_argument_of(error.name, member_names), unread) from error
        headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
        return content
    if is_lines(media):
        lines = value if isinstance(value, list) else [value]
        return b"".join(_json_of(line).encode() + b"\n" for line in lines)
    return _text_of(value).encode() if is_text(media) else _json_of(value).encode()


def _argument_of(member: str, member_names: Mapping[str, str]) -> str:
    return next((argument for argument, name in member_names.items() if name == member), member)


def _encode_form(value: Any, encodings: Mapping[str, Any], argument: str = "") -> str:
    """Return a value as a form. argument: the name of the whole value, for errors; "" if its members are
    arguments."""
    pairs: Pairs = []
    for name, inner in as_object(value).items():
        if inner is None:
            continue
        encoding = as_object(encodings.get(name))
        style, explode = encoding.get("style"), encoding.get("explode")
        entries = inner if isinstance(inner, list) else ()
        is_nested = isinstance(inner, dict) or any(isinstance(entry, dict | list) for entry in entries)
        if style is None and "explode" not in encoding and is_nested:
            # Without a style of its own, an object in a form is JSON.
            pairs.append((_escape(name), _escape(_json_of(inner))))
            continue
        is_exploded = explode if isinstance(explode, bool) else (style or "form") == "form"
        try:
            pairs += _styled_pairs(name, inner, style or "form", name, explode=is_exploded)
        except UnusableArgumentError as error:
            if not argument:
                raise
            raise UnusableArgumentError(argument, f"{printable(error.name, 60)} {error.reason}") from error
    return _join_pairs(pairs)


def outputs_in(reply: Reply, signature: Signature) -> tuple[dict[str, Any], list[Note]]:
    """Return the outputs of a reply, and notes. Raises ProtocolViolationError for invalid JSON."""
    kind = bare(reply.headers.get("content-type", ""))
    if not reply.body.strip():
        return {}, [Note("EMPTY_REPLY", "The tool answered nothing.")] if signature.outputs else []
    if not kind or kind.endswith(("/json", "+json")):
        answer = strict_json.require_answer(reply)
        value = answer.value
        whole_output = next((output.name for output in signature.outputs if output.is_whole), None)
        outputs = (
            value if isinstance(value, dict) and whole_output is None else {whole_output or "result": value}
        )
        return outputs, [*outcomes.notes_on(answer)]
    if is_lines(kind):
        lines = [line for line in reply.body.splitlines() if line.strip()]
        if len(lines) > MAX_LINES:
            raise ProtocolViolationError("JSON_TOO_MANY", f"The reply has more than {MAX_LINES:,} lines.")
        answers = [strict_json.loads_answer(line) for line in lines]
        repaired = AnswerDocument(None, any(answer.is_repaired for answer in answers))
        return {"result": [answer.value for answer in answers]}, [*outcomes.notes_on(repaired)]
    if kind.startswith("text/") or kind.endswith(("/xml", "+xml", "/yaml")):
        is_page = kind in ("text/html", "application/xhtml+xml")
        notes = [Note("WEB_PAGE", "The tool answered a web page. Is a login needed?")] if is_page else []
        answer = strict_json.repair_value({"result": reply.body.decode(errors="replace")})
        return answer.value, [*notes, *outcomes.notes_on(answer)]
    size = f"{len(reply.body):,} bytes of {printable(kind, 60)}"
    return {}, [Note("BINARY_REPLY", f"The tool answered {size}, which are not shown.")]
