"""A reply is one moment of the catalog, however many questions it asks the database."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from catalog.enumeration import runs as enumeration_runs
from catalog.models.runs import Trigger
from tests.factories import make_endpoint
from tests.vendor import tool, tools

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

ADDRESSES = ["/api/v1/tools/", "/api/v1/tools/?q=thing"]


def in_a_thread(work: Callable[[], None]) -> None:
    def perform() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=perform)
    thread.start()
    thread.join()


class CommitsAfter:
    """Lets `work` happen, elsewhere and committed, after the n-th query of this connection."""

    def __init__(self, number: int, work: Callable[[], None]) -> None:
        self.left, self.work = number, work

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        self.left -= 1
        if self.left == 0:
            in_a_thread(self.work)
        return result


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_list_never_mixes_two_states_of_the_catalog(vendor, admin_api, address):
    vendor.listed = tools(4)
    endpoint = make_endpoint(url=vendor.url)

    def run_enumeration() -> None:
        enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)

    def listed_tools() -> tuple[Any, ...]:
        rows = admin_api.get(address).json()["results"]
        return tuple(sorted((row["name"], row["description"]) for row in rows))

    run_enumeration()
    version, number = 1, 0
    while True:
        number += 1
        before, version = listed_tools(), version + 1
        vendor.listed = [
            tool(n, version, description=f"Does thing {version}.") for n in range(1, 4 + version)
        ]
        commit = CommitsAfter(number, run_enumeration)
        with connection.execute_wrapper(commit):
            state = listed_tools()
        if commit.left > 0:
            break
        after = listed_tools()
        assert before != after
        assert state in (before, after), f"the catalog changed after query {number}"
    assert number > 3
