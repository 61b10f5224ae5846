"""A proxy that the settings do not know shows itself in requests."""

import pytest

from core import proxy_signs, redis_client
from core.proxy_signs import Sign

PROXY = {"REMOTE_ADDR": "127.0.0.1"}
FORWARDED = PROXY | {"HTTP_X_FORWARDED_FOR": "203.0.113.9"}
PUBLIC = {"REMOTE_ADDR": "8.8.8.8"}
ENCRYPTED = {"HTTP_X_FORWARDED_PROTO": "https"}
CASES = [
    (PROXY, 0, False, []),
    (FORWARDED, 0, False, [Sign.UNCOUNTED_PROXY]),
    (FORWARDED | {"REMOTE_ADDR": "10.1.2.3"}, 0, False, [Sign.UNCOUNTED_PROXY]),
    (FORWARDED | {"REMOTE_ADDR": ""}, 0, False, [Sign.UNCOUNTED_PROXY]),
    # A CDN, or a client of the Internet that writes what it likes.
    (FORWARDED | PUBLIC, 0, True, [Sign.PUBLIC_PROXY]),
    (PUBLIC, 0, True, [Sign.DIRECT_CLIENT]),
    (FORWARDED | PUBLIC, 1, True, []),
    (PUBLIC, 1, True, []),
    (FORWARDED | {"HTTP_X_FORWARDED_FOR": "203.0.113.9, 8.8.8.8"}, 1, False, [Sign.EXTRA_HOPS]),
    (FORWARDED | {"HTTP_X_FORWARDED_FOR": "203.0.113.9, 8.8.8.8"}, 2, False, [Sign.ALL_HOPS]),
    (FORWARDED, 1, False, [Sign.ALL_HOPS]),
    (FORWARDED, 2, False, [Sign.MISSING_HOPS]),
    (PROXY, 1, False, [Sign.MISSING_HOPS]),
    (PROXY | ENCRYPTED, 0, True, [Sign.SCHEME]),
    (PROXY, 0, True, [Sign.NO_SCHEME]),
    (FORWARDED | ENCRYPTED, 1, True, [Sign.ALL_HOPS, Sign.SCHEME]),
]


@pytest.mark.parametrize(("meta", "proxies", "is_https", "signs"), CASES)
def test_signs_of_a_request(meta, proxies, is_https, signs):
    assert proxy_signs.signs_of(meta, proxies=proxies, is_https=is_https) == signs


@pytest.fixture
def record_sign(monkeypatch):
    monkeypatch.setattr(proxy_signs, "_noted", {})
    redis_client.client().delete(proxy_signs.KEY)
    yield lambda sign, ago: redis_client.client().hset(
        proxy_signs.KEY, str(sign), proxy_signs.time.time() - ago
    )
    redis_client.client().delete(proxy_signs.KEY)


def test_a_bad_sign_counts_until_the_setting_is_mended(record_sign):
    proxy_signs.note([Sign.UNCOUNTED_PROXY])
    assert proxy_signs.read_mismatches(proxies=0, is_https=False) == [Sign.UNCOUNTED_PROXY]
    assert proxy_signs.read_mismatches(proxies=1, is_https=True) == []


PAIRS = [
    (Sign.NO_SCHEME, Sign.SCHEME, 2),
    (Sign.MISSING_HOPS, Sign.ALL_HOPS, 2),
    (Sign.MISSING_HOPS, Sign.EXTRA_HOPS, 2),
    (Sign.EXTRA_HOPS, Sign.ALL_HOPS, 2),
    (Sign.PUBLIC_PROXY, Sign.DIRECT_CLIENT, 0),
]


@pytest.mark.parametrize(("bad", "good", "proxies"), PAIRS)
def test_the_newer_of_two_signs_counts(record_sign, bad, good, proxies):
    record_sign(bad, 1000)
    record_sign(good, 2000)
    assert bad in proxy_signs.read_mismatches(proxies=proxies, is_https=True)
    record_sign(good, 500)
    assert bad not in proxy_signs.read_mismatches(proxies=proxies, is_https=True)
    record_sign(bad, proxy_signs.KEPT_SECONDS + 10)
    redis_client.client().hdel(proxy_signs.KEY, str(good))
    assert proxy_signs.read_mismatches(proxies=proxies, is_https=True) == []


def test_a_client_that_writes_the_header_among_others_raises_no_alarm(record_sign):
    for meta in (PUBLIC, FORWARDED | PUBLIC):
        proxy_signs.note(proxy_signs.signs_of(meta, proxies=0, is_https=False))
    assert proxy_signs.read_mismatches(proxies=0, is_https=False) == []


def test_no_request_needs_the_broker(record_sign, settings):
    settings.REDIS_URL = "redis+socket:///nowhere/valkey.sock?virtual_host=0"
    proxy_signs.note([Sign.NO_SCHEME])
