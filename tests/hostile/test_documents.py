"""Documents that break their format: the whole page, one item of it, or nothing at all."""

import gzip

import pytest

from tests.hostile.bench import SHORT, USUAL, Bench, as_admin, rejections
from tests.hostile.dialects import DIALECTS, encoded
from tests.hostile_vendor import HostileVendor, raw, reply

pytestmark = pytest.mark.django_db

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WORDS = b'"Does thing 1."'


@pytest.fixture(params=DIALECTS)
def bench(request):
    with HostileVendor(reply()) as vendor:
        yield Bench(vendor, DIALECTS[request.param], as_admin())


def planted(value):
    """Return the page with the raw `value` in place of the first tool's description."""
    return lambda page: encoded(page).replace(WORDS, value, 1)


def trailing(page):
    """A chunked page with trailers behind it, one of which has a forged length."""
    body = encoded(page)
    return raw(
        HEAD
        + b"Transfer-Encoding: chunked\r\nTrailer: X-After\r\n\r\n%x;ext=1\r\n%s\r\n0\r\n" % (len(body), body)
        + b"X-After: yes\r\nContent-Length: 3\r\n\r\n"
    )


HARMLESS = {
    "is compressed": lambda page: reply(gzip.compress(encoded(page)), headers={"Content-Encoding": "gzip"}),
    "comes in chunks with trailers": trailing,
    "has a negative length": lambda page: raw(HEAD + b"Content-Length: -5\r\n\r\n" + encoded(page)),
    "comes with HTTP/1.0 and no length": lambda page: raw(
        b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + encoded(page)
    ),
    "comes with HTTP/1.0 and keep-alive": lambda page: reply(
        encoded(page), headers={"Connection": "keep-alive"}
    ),
    "comes after a dozen interim replies": lambda page: raw(
        b"HTTP/1.1 100 Continue\r\n\r\n" * 12
        + HEAD
        + b"Content-Length: %d\r\n\r\n" % len(encoded(page))
        + encoded(page)
    ),
    "sets cookies": lambda page: reply(encoded(page), headers={"Set-Cookie": "session=1; Path=/"}),
    "lies about its age": lambda page: reply(
        encoded(page), headers={"Date": "Thu, 01 Jan 1970 00:00:00 GMT", "Age": "-9", "Expires": "never"}
    ),
    "has an ETag that cannot be sent back": lambda page: reply(
        encoded(page), headers={"ETag": '"' + "e" * 9000 + '"'}
    ),
    "begins with a byte order mark": lambda page: reply(b"\xef\xbb\xbf" + encoded(page)),
}
BROKEN = {
    "42 is UTF-16": (lambda page: encoded(page).decode().encode("utf-16"), "NOT_UTF8"),
    "43 is followed by another": (lambda page: encoded(page) + b' {"b": 2}', "JSON_SYNTAX"),
    "is cut": (lambda page: encoded(page)[:-1], "JSON_SYNTAX"),
    "has an unclosed text": (planted(b'"Does'), "JSON_SYNTAX"),
    "is YAML": (lambda page: b"- a\n- b\n", "JSON_SYNTAX"),
    "is another kind of file": (
        lambda page: reply(planted(b'"A picture."')(page), headers={"Content-Type": "image/png"}),
        "NOT_JSON",
    ),
    "is a page although it says JSON": (lambda page: b"<html>Sign in</html>", "NOT_JSON"),
    "is white space": (lambda page: b" \n\t ", "EMPTY_REPLY"),
    "is null": (lambda page: b"null", "SHAPE"),
    "is a text": (lambda page: b'"tools"', "SHAPE"),
    "is a number": (lambda page: b"-0", "SHAPE"),
    "is partial": (lambda page: reply(encoded(page)[:9], status=206), "HTTP_206"),
    "is not modified although nobody asked": (lambda page: reply(b"", status=304), "HTTP_304"),
    "is not modified and has a body": (lambda page: reply(encoded(page), status=304), "HTTP_304"),
}
# A text that opens with no brace is read as YAML there.
IN_OPENAPI = {
    "42 is UTF-16": "NOT_UTF8",
    "is YAML": "SHAPE",
    "is another kind of file": None,
    "is white space": "EMPTY_REPLY",
}
ITEMS = {
    "34 is nested 900 deep": (b"[" * 900 + b"]" * 900, "JSON_DEPTH"),
    "34 is nested 100,000 deep": (b"[" * 100_000 + b"]" * 100_000, "JSON_DEPTH"),
    "35 holds a number of 5,000 digits": (b"-" + b"9" * 5_000, "JSON_NUMBER"),
    "35 holds a number of 100,000 digits": (b"9" * 100_000, "JSON_NUMBER"),
    "37 holds NaN": (b"NaN", "JSON_SYNTAX"),
    "37 holds Infinity": (b"[1, Infinity]", "JSON_SYNTAX"),
    "37 holds -Infinity": (b'{"a": -Infinity}', "JSON_SYNTAX"),
    "38 repeats a key": (b'"x", "description": "y"', "JSON_DUPLICATE"),
    "38 repeats a key in other letters": (rb'{"a": 1, "\u0061": 1}', "JSON_DUPLICATE"),
    "36 holds 1e400": (b"1e400", "JSON_NUMBER"),
    "39 holds NUL": (b'"a\\u0000b"', "JSON_NUL"),
    "41 is Latin-1": ('"Thé"'.encode("latin-1"), "NOT_UTF8"),
    "41 has a name in Latin-1": ('{"Thé": 1}'.encode("latin-1"), "NOT_UTF8"),
    "holds a raw control character": (b'"a\x01b"', "JSON_SYNTAX"),
    "holds a wrong escape": (rb'"a\x01b"', "JSON_SYNTAX"),
    "holds a word that JSON does not have": (b"undefined", "JSON_SYNTAX"),
    "holds a comma too many": (b"[1,]", "JSON_SYNTAX"),
    "40 holds half a surrogate pair": (b'"a\\ud83db"', "JSON_SURROGATE"),
}


def turned(bench, change):
    bench.shop.turn = lambda number, page: change(page) if number == 1 else page


def test_what_is_odd_and_whole_is_read(bench):
    before = bench.dump(pages=False)
    for name, change in HARMLESS.items():
        turned(bench, change)
        run = bench.enumerate(USUAL)
        assert (run.status, run.unchanged, run.error_message) == ("succeeded", 6, ""), name
        bench.shop.well()
        assert bench.enumerate().unchanged == 6, name
    assert all("cookie" not in request.headers for request in bench.vendor.requests)
    assert bench.dump(pages=False) == before


def test_a_broken_document_changes_nothing_and_says_why(bench):
    before = bench.dump()
    for name, (change, code) in BROKEN.items():
        expected = IN_OPENAPI.get(name, code) if bench.dialect.name == "openapi" else code
        if expected is None:
            continue
        turned(bench, change)
        run = bench.enumerate(USUAL)
        assert (run.status, run.error_code) == ("failed", expected), (name, run.error_message)
        assert run.error_message[-1] in ".?"
        assert run.error_message.isprintable()
        bench.is_told(run, expected, run.error_message)
        assert bench.dump() == before, name
        bench.shop.well()
        assert bench.enumerate().unchanged == 6, name
    assert bench.dump() == before


@pytest.mark.parametrize("bench", [name for name in DIALECTS if name != "acp"], indirect=True)
def test_one_bad_item_costs_itself_alone(bench):
    """The texts of an agent are outside of its list; test_content.py breaks those."""
    before = bench.dump(pages=False)
    tool = bench.dialect.id_of(bench.shop.tools[0])
    for name, (value, code) in ITEMS.items():
        if bench.dialect.name == "openapi" and code == "JSON_DUPLICATE":
            continue  # The last value counts there, and there is a note about it.
        turned(bench, planted(value))
        run = bench.enumerate(USUAL)
        assert (run.status, run.unchanged, run.rejected) == ("succeeded", 5, 1), (name, run.error_message)
        assert rejections(run) == [(tool, code)], name
        reason = run.rejections.get().reason
        assert reason in bench.run_page(run)
        assert bench.run_body(run)["rejections"] == [{"tool": tool, "code": code, "reason": reason}]
        assert bench.dump(pages=False) == before, name
        bench.shop.well()
        assert bench.enumerate().unchanged == 6, name
    assert bench.dump(pages=False) == before


def test_a_page_of_sixty_thousand_nothings_is_not_looked_at(bench):
    before = bench.dump()
    crowd = b"{}" + b",{}" * 60_000
    bodies = {
        "a2t": b'{"items":[%s]}',
        "oxp": b'{"items":[%s]}',
        "mcp": b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[%s]}}',
        "acp": b"[%s]",
    }
    operations = b",".join(b'"/%d":{"get":{}}' % number for number in range(50_001))
    body = b'{"openapi":"3.1.0","paths":{%s}}' % operations
    if bench.dialect.name in bodies:
        body = bodies[bench.dialect.name]
        turned(bench, lambda page: body % ((page["id"], crowd) if b"%d" in body else crowd))
    else:
        turned(bench, lambda page: body)
    run = bench.enumerate()
    message = (
        "One reply lists more than 50,000 tools; that is the limit. Ask the vendor to list them on pages."
    )
    assert (run.status, run.error_code, run.error_message) == ("failed", "TOO_MANY_TOOLS", message)
    bench.is_told(run, "TOO_MANY_TOOLS", message)
    assert bench.dump() == before
    bench.shop.well()
    assert bench.enumerate().unchanged == 6


def test_a_bare_array_is_taken_where_it_can_only_mean_one_thing(bench):
    before = bench.dump(pages=False)
    turned(bench, lambda page: encoded(bench.shop.tools))
    run = bench.enumerate()
    if bench.dialect.name in ("a2t", "oxp"):
        assert (run.status, run.unchanged) == ("succeeded", 6)
        assert [note["code"] for note in run.notes] == ["BARE_ARRAY"]
        assert "The list is a bare array without “items”." in bench.run_page(run)
    elif bench.dialect.name == "acp":
        assert (run.status, run.unchanged) == ("succeeded", 6)
    else:
        assert (run.status, run.error_code) == ("failed", "SHAPE")
        bench.is_told(run, "SHAPE", run.error_message)
    assert bench.dump(pages=False) == before


def test_nothing_is_taken_from_a_list_that_never_ends_its_trailers(bench):
    before = bench.dump()
    start = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"

    def endless(line, request):
        line.send(start)
        line.flood(b"X-A: " + b"b" * 60_000 + b"\r\n")

    bench.shop.hostile = endless
    run = bench.enumerate(SHORT)
    assert run.status == "failed"
    assert run.error_code in {"BODY_TOO_LARGE", "DEADLINE", "HEADERS"}
    assert bench.dump() == before
