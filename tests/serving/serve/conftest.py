"""A release that is served, and a key for it."""

import pytest

from tests.serving.test_calls import desk, owner, vendor

__all__ = ["desk", "owner", "vendor"]


@pytest.fixture
def served_at(live_server):
    """The address of a protocol of a release on a server that answers on a port."""

    def address(protocol="mcp", slug="desk", named="live", below=""):
        return f"{live_server.url}/serve/{slug}/{named}/{protocol}{below}"

    return address
