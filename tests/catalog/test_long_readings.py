"""A list that takes long is read to its end, however slowly the vendor sends it."""

import time

import psycopg
import pytest
from django.db import connection

from catalog import enumeration
from catalog.models import Tool
from catalog.models.runs import Trigger
from tests.factories import make_endpoint
from tests.vendor import Vendor, serving, tools

pytestmark = pytest.mark.django_db(transaction=True)

PAGES, PAGE = 6, 100


@pytest.fixture
def long_list():
    """Each of its pages is enough to be staged."""
    with serving(Vendor(tools(PAGES * PAGE), page_size=PAGE)) as vendor:
        yield vendor


def read(vendor):
    endpoint = make_endpoint(url=vendor.url)
    return enumeration.perform(enumeration.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def test_a_list_that_takes_longer_than_any_statement_may_is_read_whole(long_list):
    long_list.script = lambda number, document: time.sleep(0.25)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '1s'")
        try:
            run = read(long_list)
        finally:
            cursor.execute("RESET statement_timeout")
    assert (run.status, run.error, run.added) == ("succeeded", None, PAGES * PAGE)


def test_nothing_is_open_in_the_database_while_the_vendor_is_waited_for(long_list):
    """Neither a statement nor a transaction: the first would be ended, the second keeps old rows alive."""
    states = []
    connection.ensure_connection()
    ours = connection.connection.info.backend_pid
    with psycopg.connect(autocommit=True, **_database()) as other:

        def look(number, document):
            found = other.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", [ours])
            states.append(found.fetchone()[0])

        long_list.script = look
        assert read(long_list).status == "succeeded"
    assert len(states) > PAGES
    assert set(states) == {"idle"}
    assert Tool.objects.count() == PAGES * PAGE


def _database():
    given = connection.get_connection_params()
    return {name: given[name] for name in ("dbname", "user", "password", "host", "port") if name in given}
