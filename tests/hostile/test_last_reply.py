"""A vendor's last reply is stored for finding the cause of a failure, without secrets."""

import base64
import json

import pytest

from catalog.models import LastReply
from people.models import Role
from tests.hostile.bench import SECRET, SHORT, Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, raw, reply, then_waits
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture
def bench():
    with HostileVendor(reply()) as vendor:
        yield Bench(vendor, DIALECTS["a2t"], as_admin())


def fails_with(bench, script):
    bench.shop.hostile = script
    run = bench.enumerate(SHORT)
    assert run.status == "failed"
    return run


def test_the_reply_of_a_failed_run_is_shown_when_asked_for(bench):
    body = b"<script>alert(1)</script> \x00 \xe2\x80\xae not JSON \xff"
    run = fails_with(bench, reply(body, headers={"X-Odd": "<b>", "Set-Cookie": "a=b"}))

    assert f'href="/runs/{run.pk}/reply/"' in bench.pages.get(f"/runs/{run.pk}/").content.decode()
    page = bench.pages.get(f"/runs/{run.pk}/reply/")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.content.decode()
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page.content.decode()
    assert "GET" in text_of(page)
    reply_body = bench.rest.get(f"/api/v1/runs/{run.pk}/reply/").json()
    assert (reply_body["status"], reply_body["method"]) == (200, "GET")
    assert reply_body["url"] == f"{bench.vendor.url}/a2t/tools?pageLimit=100"
    assert reply_body["body"].startswith("<script>alert(1)</script> \N{SYMBOL FOR NULL}")
    assert reply_body["headers"]["x-odd"] == "<b>"
    assert "set-cookie" not in reply_body["headers"]


def test_the_page_says_when_it_is_tried_again(bench):
    run = fails_with(bench, reply(status=503))
    assert "Automatic retry: in" in bench.run_page(run)
    bench.shop.well()
    bench.enumerate()
    assert "Automatic retry:" not in bench.run_page(run)


@pytest.mark.parametrize(
    ("script", "status", "body"),
    [
        (then_waits(HEAD + b"Content-Length: 1000\r\n\r\n" + b'{"items": ['), 200, '{"items": ['),
        (raw(HEAD + b"Content-Length: 1000\r\n\r\n" + b"1234567890"), 200, "1234567890"),
        (reply(b'{"message": "later"}', status=503), 503, '{"message": "later"}'),
        (raw(b"SSH-2.0-OpenSSH_9.9\r\n"), 0, ""),
        (reply(b"x" * 70_000), 200, "x" * 65_536 + " …"),
    ],
    ids=["stalls", "breaks off", "refuses", "is no HTTP", "is long"],
)
def test_what_came_is_kept_however_it_ended(bench, script, status, body):
    run = fails_with(bench, script)
    last_reply = LastReply.objects.get(run=run)
    assert (last_reply.status, last_reply.body) == (status, body)


@pytest.mark.parametrize(
    "body",
    [
        SECRET.encode(),
        f'{{"sent": "Bearer {SECRET}"}}'.encode(),
        ESCAPED.encode(),
        b"x" * (65_536 - 9) + SECRET.encode(),
        b"x" * 10 + SECRET.encode()[:-2],
        f'{{"key": "{SECRET[1:]}"}}'.encode(),
        f"ends with {base64.b64encode(SECRET[2:].encode()).decode()}".encode(),
    ],
    ids=[
        "plain",
        "in JSON",
        "escaped",
        "across the cut",
        "broken off",
        "without its start",
        "most, in base64",
    ],
)
def test_no_secret_is_kept_however_it_is_sent_back(bench, body):
    headers = {"X-Echo": SECRET, "X-Part": f"key={SECRET[1:]}; a=b", f"X-{SECRET}": "1"}
    for status in (200, 403, 500):
        run = fails_with(bench, reply(body, status=status, headers=headers))
        last_reply = LastReply.objects.get(run=run)
        texts = bench.pages.get(f"/runs/{run.pk}/reply/").content.decode() + bench.dump() + last_reply.body
        for form in (SECRET, SECRET[:8], SECRET[-8:], ESCAPED, base64.b64encode(SECRET.encode()).decode()):
            assert form not in texts
        assert (last_reply.headers["x-echo"], last_reply.headers["x-part"]) == ("•••", "•••")
        assert SECRET.lower() not in str(last_reply.headers)


def test_a_tool_that_spells_our_secret_is_not_taken(bench):
    bench.shop.tools[0] = bench.dialect.described(bench.shop.tools[0], "MARK")
    bench.shop.turn = lambda number, page: json.dumps(page).replace("MARK", ESCAPED).encode()
    run = bench.enumerate()
    assert (run.status, run.error_code) == ("failed", "ECHO")
    assert SECRET not in bench.dump()


def test_only_the_last_ten_of_an_endpoint_are_kept(bench):
    for _ in range(12):
        last = fails_with(bench, reply(b"{"))
    assert LastReply.objects.count() == 10
    assert LastReply.objects.filter(run=last).exists()


def test_only_administrators_see_it(bench):
    run = fails_with(bench, reply(b"{"))
    designer = signed_in(Role.DESIGNER)
    assert "The vendor's reply" not in text_of(designer.get(f"/runs/{run.pk}/reply/"))
    assert "Show the vendor's reply" not in text_of(designer.get(f"/runs/{run.pk}/"))


def test_a_run_that_went_well_keeps_nothing(bench):
    assert not LastReply.objects.exists()
