from collections.abc import Iterator

import pytest

from tests.vendor import Vendor, serving, tools


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with serving(Vendor(tools(25))) as vendor:
        yield vendor
