"""The addresses at which Pegboard can be, and the form of an origin."""

import pytest

from core.web_origins import address_problem, format_origin, origin_of

GOOD = [
    "",
    "https://pegboard.example",
    "http://127.0.0.1:8000",
    "https://[fd12::1]:8443",
    "https://a.example/",
]
BAD = {
    "pegboard.example": "not the address",
    "ftp://pegboard.example": "not the address",
    "https://": "not the address",
    "https://[half": "not the address",
    "https://a.example:port": "not the address",
    "https://a.example/pegboard": "path /pegboard",
    "https://a.example//x": "path //x",
    "https://ada@a.example": "write https://a.example",
    "https://a.example?x=1": "write https://a.example",
}


@pytest.mark.parametrize("address", GOOD)
def test_an_origin_is_an_address(address):
    assert address_problem("PEGBOARD_URL", address) == ""


@pytest.mark.parametrize("address", BAD)
def test_what_is_no_origin_or_more_is_refused(address):
    problem = address_problem("PEGBOARD_URL", address)
    assert problem.startswith("PEGBOARD_URL")
    assert BAD[address] in problem


def test_origins_are_written_as_browsers_send_them():
    for address in ("https://a.example", "http://a.example:8000", "https://[fd12::1]:8443"):
        assert format_origin(origin_of(address)) == address
    assert format_origin(origin_of("https://A.example:443/x")) == "https://a.example"
