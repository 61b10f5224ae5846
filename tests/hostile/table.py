"""The result of each behaviour of the wire: code and message, for every protocol and its differences.

Numbers are those of the bar's table of hostile behaviours. Pegboard's code is more precise in places:
AUTH comes with the vendor's answer; HTTP_202 and its like name the status.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outcome:
    """`says` is the whole message, with {host} and {path}; `unless` has other ones by protocol."""

    code: str
    says: str
    number: str = ""
    unless: dict[str, tuple[str, str]] = field(default_factory=dict)

    def of(self, protocol: str) -> tuple[str, str]:
        return self.unless.get(protocol, (self.code, self.says))


WIRE = {
    "announces 10 GB": Outcome("BODY_TOO_LARGE", "{host} announced 10.0 GB; limit 256 KB.", "3"),
    "sends endless chunks": Outcome("BODY_TOO_LARGE", "{host} sent more than 256 KB.", "4"),
    "sends an endless body": Outcome("BODY_TOO_LARGE", "{host} sent more than 256 KB.", "5"),
    "sends a gzip bomb": Outcome(
        "BODY_RATIO", "{host}: the compressed reply expands more than 200 times.", "6"
    ),
    "compresses twice": Outcome("ENCODING", "{host} used Content-Encoding 'gzip, gzip', not supported.", "7"),
    "compresses with brotli": Outcome("ENCODING", "{host} used Content-Encoding 'br', not supported.", "8"),
    "cuts its gzip": Outcome("BODY_TRUNCATED", "{host}: the reply ended early.", "9"),
    "says gzip and is not": Outcome("ENCODING", "{host}: the reply is not gzip as announced.", "10"),
    "sends more after its gzip": Outcome("ENCODING", "{host}: the reply is not gzip as announced."),
    "drips its headers": Outcome("DEADLINE", "{host} did not finish within 0.8 s.", "11"),
    "drips its body": Outcome("DEADLINE", "{host} did not finish within 0.8 s.", "12"),
    "accepts and is silent": Outcome("IDLE", "{host} sent nothing for 0.8 s.", "13"),
    "stops in mid-body": Outcome("IDLE", "{host} stopped after 5 bytes.", "14"),
    "closes in mid-body": Outcome("BODY_TRUNCATED", "{host} closed after 10 of 1,000 bytes.", "15"),
    "closes in mid-chunk": Outcome("BODY_TRUNCATED", "{host}: the reply ended early."),
    "closes between chunks": Outcome("BODY_TRUNCATED", "{host}: the reply ended early."),
    "resets the connection": Outcome("RESET", "{host}: the connection was reset.", "16"),
    "closes without a reply": Outcome("NO_REPLY", "{host} closed the connection without a reply.", "17"),
    "speaks SSH": Outcome(
        "NOT_HTTP", r'{host} does not speak HTTP (got "\x00\x01SSH-2.0-OpenSSH_9.9\r\n").', "18"
    ),
    "speaks HTTP/0.9": Outcome("NOT_HTTP", '{host} does not speak HTTP (got "<html>welcome</html>").', "19"),
    "speaks HTTP/2": Outcome("NOT_HTTP", '{host} does not speak HTTP (got "HTTP/2.0").'),
    "sends a status line without end": Outcome(
        "NOT_HTTP", "{host} does not speak HTTP (got an endless line)."
    ),
    "sends 5,000 headers": Outcome("HEADERS", "{host} sent more than 100 headers.", "20"),
    "sends a header of 2 MB": Outcome("HEADERS", "{host} sent a header longer than 64 KB.", "21"),
    "sends endless interim replies": Outcome("DEADLINE", "{host} did not finish within 0.8 s.", "22"),
    "gives two lengths": Outcome("FRAMING", "{host} sent contradicting lengths.", "23"),
    "sends a bad chunk size": Outcome("FRAMING", "{host} sent an invalid chunk size.", "25"),
    "sends a negative chunk size": Outcome("FRAMING", "{host} sent an invalid chunk size."),
    "sends an endless chunk size": Outcome("FRAMING", "{host} sent a chunk line without end."),
    "compresses the transfer": Outcome(
        "ENCODING", "{host} used Transfer-Encoding 'gzip, chunked', not supported."
    ),
    "redirects to metadata": Outcome(
        "REDIRECT", "{host} answered 302 to 169.254.169.254; redirects are not followed.", "26"
    ),
    "redirects to a file": Outcome(
        "REDIRECT", "{host} answered 302 to file:; redirects are not followed.", "27"
    ),
    "redirects to a path": Outcome(
        "REDIRECT", "{host} answered 308 to /tools/; redirects are not followed.", "28"
    ),
    "redirects nowhere": Outcome("REDIRECT", "{host} answered 302 to nowhere; redirects are not followed."),
    "redirects to nonsense": Outcome(
        "REDIRECT", "{host} answered 302 to an address that cannot be read; redirects are not followed."
    ),
    "shows a login page": Outcome(
        "NOT_JSON",
        "{host} sent a web page (text/html). Is the address right, or is a login needed?",
        "29",
        {
            "openapi": (
                "NOT_JSON",
                "This is a web page. Enter the address of the OpenAPI document itself, in JSON or YAML.",
            )
        },
    ),
    "answers 204": Outcome("EMPTY_REPLY", "{host} answered 204 No Content: a reply without a body.", "30"),
    "sends an empty body": Outcome("EMPTY_REPLY", "The reply is empty."),
    "answers 202": Outcome(
        "HTTP_202",
        "{host} answered 202 Accepted, which is not expected here.",
        unless={"mcp": ("SHAPE", "The reply of {host} cannot be used: it is no message of JSON-RPC.")},
    ),
    "answers 103": Outcome("HTTP_103", "{host} answered 103 Early Hints, which is not expected here."),
    "answers 429 for 1000 days": Outcome(
        "RATE_LIMITED",
        "{host} answered 429 Too Many Requests and asks to wait 1000 days; will try in 24 h.",
        "31",
    ),
    "answers 503": Outcome("HTTP_503", "{host} answered 503 Service Unavailable.", "32"),
    "answers 500 and asks to wait": Outcome(
        "HTTP_500", "{host} answered 500 Internal Server Error and asks to wait 90 s."
    ),
    "answers 400": Outcome(
        "HTTP_400",
        "{host} answered 400 Bad Request.",
        unless={
            "oxp": ("HTTP_400", "{host} answered 400 Bad Request. There is nothing at /health, either."),
            "mcp": ("HTTP_400", "{host} answered 400. Is this the address of an MCP server?"),
            "acp": ("HTTP_400", "The vendor refused to list its agents without a reason (400)."),
        },
    ),
    "answers 401 and points elsewhere": Outcome(
        "AUTH",
        "{host} rejected the credential (401 Unauthorized).",
        "33",
        {
            "mcp": (
                "AUTH",
                "{host} wants a credential that may do this (401). How to get one: http://127.0.0.66/x",
            )
        },
    ),
    "answers 403": Outcome(
        "AUTH",
        "{host} rejected the credential (403 Forbidden).",
        unless={"mcp": ("AUTH", "{host} wants a credential that may do this (403).")},
    ),
    "answers 404": Outcome(
        "NOT_FOUND",
        "{host} has nothing at {path}; is the address right?",
        unless={
            "oxp": (
                "NOT_FOUND",
                "{host} has nothing at {path}; is the address right? There is nothing at /health, either.",
            )
        },
    ),
    "answers 999": Outcome("HTTP_999", "{host} answered 999, which is not expected here."),
    "streams events without an answer": Outcome("DEADLINE", "{host} did not finish within 0.8 s.", "46"),
}

# Where nothing but the clock ends it.
SLOW = {
    *("drips its headers", "drips its body", "accepts and is silent", "stops in mid-body"),
    *("sends endless interim replies", "streams events without an answer"),
}

# Behaviours of `tests.hostile_vendor` that concern a whole document; test_documents.py has them page by page.
ELSEWHERE = {
    *("is good", "is good and compressed", "is good in chunks", "gives a negative length"),
    *("sends JSON 200,000 deep", "sends a number of 5 million digits", "sends NaN", "sends 1e400"),
    *("repeats a key", "sends NUL", "sends half a surrogate pair", "sends Latin-1", "sends UTF-16"),
    *("sends two documents", "sends endless trailers"),
}
