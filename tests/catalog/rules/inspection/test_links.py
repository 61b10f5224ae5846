import pytest

from catalog.rules.inspection.links import domain, find_foreign_links
from tests.factories import make_parameter, make_signature


@pytest.mark.parametrize(
    ("host", "owned"),
    [
        ("api.example.com", "example.com"),
        ("EXAMPLE.com.", "example.com"),
        ("shop.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("127.0.0.1", ""),
        ("localhost", ""),
    ],
)
def test_a_domain_is_what_somebody_registered(host, owned):
    assert domain(host) == owned


@pytest.mark.parametrize(
    ("text", "homes", "expected_text"),
    [
        ("See https://evil.example.net/x.", ["https://api.example.com/"], "example.net"),
        ("See https://docs.example.com/x.", ["https://api.example.com/"], None),
        ("See https://docs.brand.io/x.", ["https://api.example.com/", "https://brand.io"], None),
        ("See https://evil.example.net/x.", ["http://127.0.0.1:9000/", ""], None),
        ("No link at all.", ["https://api.example.com/"], None),
    ],
)
def test_links_to_others_are_named(text, homes, expected_text):
    signature = make_signature(description="Plain.", inputs=(make_parameter(description=text),))

    alarm = find_foreign_links(signature, homes)

    assert (alarm is None) == (expected_text is None)
    assert expected_text is None or expected_text in alarm.message
