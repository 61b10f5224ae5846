import contextlib
import gzip
import math
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.outbound.addresses import Policy
from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, UnavailableError
from core.outbound.limits import MIB, Budget, Limits
from core.outbound.response import _gunzip
from core.outbound.session import HttpSession
from core.strict_json import require_json
from tests.hostile_vendor import BEHAVIOURS, GOOD, HostileVendor, drips, floods, raw, reply

LOOPBACK = Policy.parse("127.0.0.1/32")
# Long enough that a busy machine answers within half of it: silence of more is another outcome.
SHORT = Limits(request=1.5, session=5, backoff=())

LATER, ACT, VENDOR = UnavailableError, RefusedError, ProtocolViolationError

OUTCOMES = {
    "announces 10 GB": (VENDOR, "BODY_TOO_LARGE", "announced 10.0 GB; limit 10 MB"),
    "sends endless chunks": (VENDOR, "BODY_TOO_LARGE", "sent more than 10 MB"),
    "sends an endless body": (VENDOR, "BODY_TOO_LARGE", "sent more than 10 MB"),
    "sends an endless chunk size": (VENDOR, "FRAMING", "a chunk line without end"),
    "sends a gzip bomb": (VENDOR, "BODY_RATIO", "compressed reply expands more than 200 times"),
    "compresses twice": (VENDOR, "ENCODING", "used Content-Encoding 'gzip, gzip', not supported"),
    "compresses with brotli": (VENDOR, "ENCODING", "used Content-Encoding 'br', not supported"),
    "compresses the transfer": (VENDOR, "ENCODING", "used Transfer-Encoding 'gzip, chunked', not supported"),
    "cuts its gzip": (LATER, "BODY_TRUNCATED", "reply ended early"),
    "says gzip and is not": (VENDOR, "ENCODING", "reply is not gzip as announced"),
    "sends more after its gzip": (VENDOR, "ENCODING", "reply is not gzip as announced"),
    "drips its headers": (LATER, "DEADLINE", "did not finish within 1.5 s"),
    "drips its body": (LATER, "DEADLINE", "did not finish within 1.5 s"),
    "accepts and is silent": (LATER, "IDLE", "sent nothing for 1.5 s"),
    "stops in mid-body": (LATER, "IDLE", "stopped after 5 bytes"),
    "closes in mid-body": (LATER, "BODY_TRUNCATED", "closed after 10 of 1,000 bytes"),
    "closes in mid-chunk": (LATER, "BODY_TRUNCATED", "reply ended early"),
    "closes between chunks": (LATER, "BODY_TRUNCATED", "reply ended early"),
    "resets the connection": (LATER, "RESET", "connection was reset"),
    "closes without a reply": (LATER, "NO_REPLY", "closed the connection without a reply"),
    "speaks SSH": (VENDOR, "NOT_HTTP", r'does not speak HTTP (got "\x00\x01SSH-2.0-OpenSSH_9.9\r\n")'),
    "speaks HTTP/0.9": (VENDOR, "NOT_HTTP", "<html>welcome</html>"),
    "speaks HTTP/2": (VENDOR, "NOT_HTTP", "HTTP/2.0"),
    "sends a status line without end": (VENDOR, "NOT_HTTP", "an endless line"),
    "sends 5,000 headers": (VENDOR, "HEADERS", "more than 100 headers"),
    "sends a header of 2 MB": (VENDOR, "HEADERS", "header longer than 64 KB"),
    "sends endless interim replies": (LATER, "DEADLINE", "did not finish within 1.5 s"),
    "gives two lengths": (VENDOR, "FRAMING", "contradicting lengths"),
    "sends a bad chunk size": (VENDOR, "FRAMING", "an invalid chunk size"),
    "sends a negative chunk size": (VENDOR, "FRAMING", "an invalid chunk size"),
    "redirects to metadata": (
        ACT,
        "REDIRECT",
        "answered 302 to 169.254.169.254; redirects are not followed",
    ),
    "redirects to a file": (ACT, "REDIRECT", "answered 302 to file:; redirects are not followed"),
    "redirects to a path": (ACT, "REDIRECT", "answered 308 to /tools/; redirects are not followed"),
    "redirects nowhere": (ACT, "REDIRECT", "to nowhere"),
    "redirects to nonsense": (ACT, "REDIRECT", "to an address that cannot be read"),
    "answers 204": (VENDOR, "EMPTY_REPLY", "answered 204 No Content"),
    "answers 202": (VENDOR, "HTTP_202", "answered 202 Accepted, which is not expected"),
    "answers 103": (VENDOR, "HTTP_103", "answered 103 Early Hints"),
    "answers 429 for 1000 days": (LATER, "RATE_LIMITED", "asks to wait 1000 days; will try in 24 h"),
    "answers 503": (LATER, "HTTP_503", "answered 503 Service Unavailable"),
    "answers 500 and asks to wait": (LATER, "HTTP_500", "and asks to wait 90 s."),
    "answers 400": (ACT, "HTTP_400", "answered 400 Bad Request"),
    "answers 401 and points elsewhere": (ACT, "AUTH", "rejected the credential (401 Unauthorized)"),
    "answers 403": (ACT, "AUTH", "rejected the credential (403 Forbidden)"),
    "answers 404": (ACT, "NOT_FOUND", "has nothing at /tools; is the address right?"),
    "answers 999": (VENDOR, "HTTP_999", "answered 999, which is not expected"),
    "streams events without an answer": (LATER, "DEADLINE", "did not finish within 1.5 s"),
    "shows a login page": (VENDOR, "NOT_JSON", "sent a web page (text/html). Is the address right"),
    "sends an empty body": (VENDOR, "EMPTY_REPLY", "empty"),
    "sends JSON 200,000 deep": (VENDOR, "JSON_DEPTH", "nested too deeply"),
    "sends a number of 5 million digits": (VENDOR, "JSON_NUMBER", "5,000,000 digits"),
    "sends NaN": (VENDOR, "JSON_SYNTAX", "NaN"),
    "sends 1e400": (VENDOR, "JSON_NUMBER", "too large"),
    "repeats a key": (VENDOR, "JSON_DUPLICATE", '"name"'),
    "sends NUL": (VENDOR, "JSON_NUL", r'"a\x00b"'),
    "sends half a surrogate pair": (VENDOR, "JSON_SURROGATE", r'"a\ud83db"'),
    "sends Latin-1": (VENDOR, "NOT_UTF8", "byte 2"),
    "sends UTF-16": (VENDOR, "NOT_UTF8", "UTF-8"),
    "sends two documents": (VENDOR, "JSON_SYNTAX", "at char 8"),
}
HARMLESS = {"is good", "is good and compressed", "is good in chunks", "gives a negative length"}
EITHER = {"sends endless trailers"}


def open_session(vendor, limits=SHORT, **options):
    return HttpSession(vendor.url, policy=LOOPBACK, limits=limits, **options)


def ask(script, limits=SHORT, **options):
    with HostileVendor(script) as vendor, open_session(vendor, limits, **options) as session:
        return session.get("/tools", params={"key": "s3cret"})


def test_every_behaviour_has_an_expected_outcome():
    assert set(BEHAVIOURS) == OUTCOMES.keys() | HARMLESS | EITHER


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_harmless_vendor_is_understood(name):
    assert ask(BEHAVIOURS[name]).body == GOOD


@pytest.mark.parametrize("name", sorted(OUTCOMES))
def test_hostile_vendor_gets_its_own_sentence(name):
    kind, code, sentence = OUTCOMES[name]
    with pytest.raises(ProtocolError) as caught:
        require_json(ask(BEHAVIOURS[name], authorization={"X-Key": "hidden"}))
    assert (type(caught.value), caught.value.code) == (kind, code)
    assert sentence in caught.value.message
    assert caught.value.message.isprintable()
    assert "s3cret" not in caught.value.message
    assert "hidden" not in caught.value.message


def test_endless_trailers_end():
    with pytest.raises(ProtocolError) as caught:
        ask(BEHAVIOURS["sends endless trailers"], Limits(request=1, body=MIB, backoff=()))
    assert caught.value.code in {"BODY_TOO_LARGE", "DEADLINE"}


def test_message_names_the_vendor_and_the_missing_credential():
    with HostileVendor(reply(status=401)) as vendor, open_session(vendor) as session:
        sentence = f"127.0.0.1:{vendor.port} requires a credential"
        with pytest.raises(RefusedError, match=sentence):
            session.get("/")


def test_redirect_on_the_same_host_shows_where_to():
    moved = reply(b"", status=301, headers={"Location": "https://127.0.0.1/v2?t=s3cret"})
    with pytest.raises(RefusedError, match=r"answered 301 to https://127\.0\.0\.1/v2; redirects"):
        ask(moved)


def test_framing_cannot_carry_more_than_the_body_may():
    chunk_extension = b"1;" + b"x" * 8000 + b"\r\nx\r\n"
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with pytest.raises(ProtocolViolationError, match="sent more than 1 MB"):
        ask(floods(chunk_extension, after=start), Limits(body=MIB))


def test_compressed_body_is_held_to_the_same_size():
    body = random.Random(1).randbytes(MIB) + bytes(MIB)
    packed = reply(gzip.compress(body), headers={"Content-Encoding": "gzip"})
    assert ask(packed, Limits(body=2 * MIB)).body == body
    with pytest.raises(ProtocolViolationError, match=r"sent more than 1\.5 MB"):
        ask(packed, Limits(body=3 * MIB // 2))


@pytest.mark.parametrize("size", [1, 7, 1_000, 100_000])
def test_a_compressed_body_may_have_several_members(size):
    body = random.Random(2).randbytes(3_000)
    packed = b"".join(gzip.compress(part) for part in (body[:1_000], b"", body[1_000:]))
    pieces = [packed[offset : offset + size] for offset in range(0, len(packed), size)]
    budget = Budget("vendor.example", Limits(), math.inf)
    assert b"".join(_gunzip(pieces, budget)) == body
    assert ask(reply(packed, headers={"Content-Encoding": "gzip"})).body == body


def test_a_bomb_in_members_is_a_bomb():
    members = reply(gzip.compress(bytes(2 * MIB)) * 20, headers={"Content-Encoding": "gzip"})
    with pytest.raises(ProtocolViolationError) as raised:
        ask(members, Limits(body=64 * MIB))
    assert raised.value.code == "BODY_RATIO"


def test_a_second_member_that_is_cut_off_is_known_as_that():
    packed = gzip.compress(GOOD) + gzip.compress(GOOD)[:-4]
    with pytest.raises(UnavailableError) as raised:
        ask(reply(packed, headers={"Content-Encoding": "gzip"}))
    assert raised.value.code == "BODY_TRUNCATED"


def test_small_limits_are_told_in_bytes():
    with pytest.raises(ProtocolViolationError, match="announced 700 bytes; limit 500 bytes"):
        ask(reply(b" " * 700), Limits(body=500))


def test_compressed_nothing_is_nothing():
    assert ask(reply(b"", headers={"Content-Encoding": "gzip"})).body == b""


def test_all_replies_together_have_a_limit():
    limits = Limits(session_bytes=2048)
    with HostileVendor(reply(b" " * 700)) as vendor, open_session(vendor, limits) as session:
        session.get("/")
        session.get("/")
        with pytest.raises(ProtocolViolationError, match="more than 2 KB in all"):
            session.get("/")


def test_all_tries_together_have_a_deadline():
    limits = Limits(session=0.4, request=10, backoff=(0.01,) * 1000)
    started = time.monotonic()
    with pytest.raises(UnavailableError, match=r"did not finish within 0\.4 s"):
        ask(drips(b"x" * 500), limits)
    with pytest.raises(UnavailableError, match=r"503|did not finish"):
        ask(reply(status=503), limits)
    assert time.monotonic() - started < 3


def test_nothing_is_asked_after_the_deadline_of_the_session():
    limits = Limits(session=0.1)
    with HostileVendor(reply()) as vendor, open_session(vendor, limits) as session:
        session.get("/")
        time.sleep(0.15)
        with pytest.raises(UnavailableError, match="did not finish"):
            session.get("/")
    assert len(vendor.requests) == 1


def test_vendor_that_reads_nothing_cannot_hold_a_post():
    with HostileVendor(reply(), reads=False) as vendor, open_session(vendor) as session:
        with pytest.raises(UnavailableError) as unavailable:
            session.post("/", json="x" * 8 * MIB)
        assert unavailable.value.code in {"IDLE", "DEADLINE"}


FRAGMENTS = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200\r\n",
    b"HTTP/1.1 304 x\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 -1 x\r\n",
    b"Content-Length: 4\r\n",
    b"Content-Length: 4, 4\r\n",
    b"Content-Length: 1_0\r\n",
    b"Content-Length: 99999999999999999999999\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Retry-After: Mon, 0\r\n",
    b"no colon\r\n",
    b": no name\r\n",
    b" folded\r\n",
    b"X: \xff\x00\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"4\r\nabcd\r\n",
    b"0x4\r\nabcd\r\n",
    b"-1\r\n",
    b"-7\r\n",
    b"0\r\n\r\n",
    b"\x1f\x8b\x08\x00",
    b"[1]",
    b"\x00",
]
answer = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=8), max_size=10).map(b"".join)


@pytest.fixture(scope="module")
def parrot():
    with HostileVendor(raw(b"")) as vendor:
        yield vendor


@given(answer=answer)
def test_no_answer_raises_anything_but_our_errors(parrot, answer):
    parrot.script = raw(answer)
    with contextlib.suppress(ProtocolError), open_session(parrot) as session:
        session.get("/")
