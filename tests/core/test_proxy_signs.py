"""A proxy that the settings do not know shows itself in requests."""

import pytest

from core import proxy_signs, redis_client
from core.proxy_signs import Sign

PROXY = {"REMOTE_ADDR": "127.0.0.1"}
FORWARDED = PROXY | {"HTTP_X_FORWARDED_FOR": "203.0.113.9"}
ENCRYPTED = {"HTTP_X_FORWARDED_PROTO": "https"}
CASES = [
    (PROXY, 0, False, []),
    (FORWARDED, 0, False, [Sign.UNCOUNTED_PROXY]),
    (FORWARDED | {"REMOTE_ADDR": "10.1.2.3"}, 0, False, [Sign.UNCOUNTED_PROXY]),
    (FORWARDED | {"REMOTE_ADDR": ""}, 0, False, [Sign.UNCOUNTED_PROXY]),
    # A client of the Internet writes what it likes.
    (FORWARDED | {"REMOTE_ADDR": "8.8.8.8"}, 0, True, []),
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
def seen(monkeypatch):
    monkeypatch.setattr(proxy_signs, "_noted", {})
    redis_client.client().delete(proxy_signs.KEY)
    yield lambda sign, ago: redis_client.client().hset(
        proxy_signs.KEY, str(sign), proxy_signs.time.time() - ago
    )
    redis_client.client().delete(proxy_signs.KEY)


def test_a_bad_sign_counts_until_the_setting_is_mended(seen):
    proxy_signs.note([Sign.UNCOUNTED_PROXY])
    assert proxy_signs.read_troubles(proxies=0, is_https=False) == {Sign.UNCOUNTED_PROXY}
    assert proxy_signs.read_troubles(proxies=1, is_https=True) == set()


@pytest.mark.parametrize(("bad", "good"), [(Sign.NO_SCHEME, Sign.SCHEME), (Sign.MISSING_HOPS, Sign.ALL_HOPS)])
def test_the_newer_of_two_signs_counts(seen, bad, good):
    seen(bad, 1000)
    seen(good, 2000)
    assert proxy_signs.read_troubles(proxies=2, is_https=True) == {bad}
    seen(good, 500)
    assert proxy_signs.read_troubles(proxies=2, is_https=True) == set()
    seen(bad, proxy_signs.KEPT_SECONDS + 10)
    redis_client.client().hdel(proxy_signs.KEY, str(good))
    assert proxy_signs.read_troubles(proxies=2, is_https=True) == set()


def test_no_request_needs_the_broker(seen, settings):
    settings.REDIS_URL = "redis+socket:///nowhere/valkey.sock?virtual_host=0"
    proxy_signs.note([Sign.NO_SCHEME])
