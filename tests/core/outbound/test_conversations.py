"""Sessions of protocols that need more than one request and one reply."""

import html
import json
import re
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from contextlib import contextmanager
from urllib.parse import quote, quote_plus

import pytest

from catalog.credentials import sessions
from core.outbound.addresses import Policy
from core.outbound.connection_pool import KeptFor
from core.outbound.errors import RefusedError, UnavailableError
from core.outbound.exchange import MAX_RECORDED_BYTES
from core.outbound.limits import Limits
from core.outbound.session import HttpSession
from tests.factories import make_endpoint
from tests.hostile_vendor import HostileVendor, in_turn, json_reply, raw, reply, resets

LOOPBACK = Policy.parse("127.0.0.1/32")
QUICK = Limits(backoff=(0.01, 0.01), request=2)
SECRET = "s3cret-s3cret"
BEARER = {"authorization": {"Authorization": f"Bearer {SECRET}"}, "secrets": [SECRET]}


def open_session(url, **options):
    return HttpSession(url, policy=LOOPBACK, limits=QUICK, **options)


@contextmanager
def talk(script, **options):
    with HostileVendor(script) as vendor, open_session(vendor.url, **options) as session:
        yield vendor, session


def test_repeatable_post_is_tried_again_when_the_failure_may_pass():
    with talk(in_turn(resets, json_reply([1]))) as (vendor, session):
        assert session.post("/search", json={}, is_repeatable=True).body == b"[1]"
    assert len(vendor.requests) == 2


def test_other_posts_are_never_tried_again():
    with talk(in_turn(resets, json_reply([1]))) as (vendor, session), pytest.raises(UnavailableError):
        session.post("/run", json={})
    assert len(vendor.requests) == 1


def test_delete_takes_the_usual_answers():
    with talk(raw(b"HTTP/1.1 204 No Content\r\n\r\n")) as (vendor, session):
        assert session.delete("/session", headers={"X-Id": "7"}).status == 204
    assert (vendor.requests[0].method, vendor.requests[0].headers["x-id"]) == ("DELETE", "7")


def test_open_stream_is_left_when_enough_has_come():
    stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\ndata: 2\n\n"
    with talk(raw(stream, keep=True)) as (_, session):
        answer = session.post("/", json={}, is_enough=lambda body: b"data: 1" in body)
        assert answer.body.startswith(b"data: 1")


def test_what_is_listened_to_and_says_nothing_leaves_its_connection_to_the_next():
    with talk(reply(b""), kept_for=KeptFor("listening", "test")) as (vendor, session):
        listening = session.listen("/events", {})
        while not vendor.requests or any(thread.name == "listening" for thread in threading.enumerate()):
            time.sleep(0.01)
        session.get("/next")
        listening.close()
    assert vendor.connections == 1


def test_another_address_gets_no_credential():
    with HostileVendor(reply()) as other, talk(reply(), **BEARER) as (home, session):
        elsewhere = session.at_url(other.url + "/doc.json")
        elsewhere.get("")
        back = elsewhere.at_url(home.url)
        back.get("/again")
        elsewhere.close()
        back.close()
    assert "authorization" not in other.requests[0].headers
    assert other.requests[0].target == "/doc.json"
    assert home.requests[0].headers["authorization"] == f"Bearer {SECRET}"


def test_another_address_keeps_the_address_rule():
    with talk(reply()) as (_, session), pytest.raises(RefusedError):
        session.at_url("http://169.254.169.254/latest").get("")


def test_exchanges_show_what_went_over_the_wire_without_the_credential():
    exchanges = []
    with talk(json_reply({"n": 1}), exchanges=exchanges, **BEARER) as (vendor, session):
        session.post("/run", json={"key": SECRET, "city": "Bern"}, headers={"X-Trace": SECRET})
    (exchange,) = exchanges
    assert (exchange.method, exchange.status, exchange.url) == ("POST", 200, f"{vendor.url}/run")
    assert (exchange.body, exchange.reply) == ('{"key":"•••","city":"Bern"}', '{"n": 1}')
    assert exchange.headers["X-Trace"] == "•••"
    assert SECRET not in repr(exchange)


def test_failed_exchange_is_recorded_too():
    exchanges = []
    with talk(resets, exchanges=exchanges) as (_, session), pytest.raises(UnavailableError):
        session.post("/run", json={})
    assert [exchange.status for exchange in exchanges] == [0]


def test_long_bodies_are_recorded_in_part():
    exchanges = []
    with talk(reply(b"x" * 200_000), exchanges=exchanges) as (_, session):
        assert len(session.get("/").body) == 200_000
    assert len(exchanges[0].reply) == MAX_RECORDED_BYTES + 2


@pytest.mark.django_db
def test_what_a_protocol_found_out_is_there_in_the_next_session():
    endpoint = make_endpoint()
    with sessions.open_session(endpoint) as session:
        session.memory["era"] = "modern"
    endpoint.refresh_from_db()
    with sessions.open_session(endpoint) as session:
        assert session.memory == {"era": "modern"}


@pytest.mark.django_db
def test_nothing_is_written_when_nothing_was_found_out(django_assert_num_queries):
    endpoint = make_endpoint(memory={"era": "modern"})
    with django_assert_num_queries(0), sessions.open_session(endpoint) as session:
        assert session.memory == {"era": "modern"}


AROUND = ["", "x", "Bearer ", "ab"]


@pytest.mark.parametrize("before", AROUND)
@pytest.mark.parametrize(
    "disguise",
    [
        lambda text: text,
        lambda text: quote(text, safe=""),
        lambda text: b64encode(text.encode()).decode(),
        lambda text: urlsafe_b64encode(text.encode()).decode().rstrip("="),
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
        lambda text: text[::-1],
        lambda text: "".join(f"\\u{ord(c):04x}" for c in text),
        lambda text: json.dumps(text)[1:-1],
        lambda text: json.dumps(json.dumps(text))[1:-1],
        lambda text: re.sub("%..", lambda match: match[0].lower(), quote(text, safe="")),
        lambda text: quote(quote(text, safe=""), safe=""),
        quote_plus,
        html.escape,
        lambda text: json.dumps(html.escape(html.escape(text)))[1:-1],
        lambda text: json.dumps(html.escape(text)).replace("&", "\\u0026")[1:-1],
        lambda text: "".join(f"&#x{ord(c):X};" for c in text),
        lambda text: json.dumps(quote(json.dumps(text)))[1:-1],
        lambda text: text.replace("'", "''"),
    ],
)
@pytest.mark.parametrize("secret", ["s3cret/+?-of-ours", 'pä"ss\\w0rd &<ours>', "100%41-it's+ours\\n"])
def test_secret_that_comes_back_in_disguise_is_not_taken(before, disguise, secret):
    body = f'{{"description": "{disguise(before + secret)}"}}'.encode()
    options = {"authorization": {"X-Key": "does not matter"}, "secrets": [secret]}
    header = disguise(before + secret).encode().decode("latin-1")
    for script in (reply(body), reply(b"{}", headers={"X-Debug": header})):
        with talk(script, **options) as (_vendor, session), pytest.raises(RefusedError) as refused:
            session.get("/")
        assert refused.value.code == "ECHO"
