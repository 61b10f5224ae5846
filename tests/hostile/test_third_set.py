"""Attempts of an outside tester that once did harm or had a wrong message."""

import logging
import threading
import time

import pytest
from django.db import connection, transaction

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint
from catalog.models.runs import Trigger
from core.outbound.addresses import Policy
from core.outbound.errors import ProtocolError
from core.outbound.session import HttpSession
from protocols import paging
from protocols.openapi import document as openapi_document
from tests.factories import make_endpoint
from tests.hostile_vendor import HostileVendor, raw
from tests.query_key import QueryKey

LOOPBACK = Policy.parse("127.0.0.1/32")
KEY = "Kn4ry-in-the-address"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def refusal(data: bytes, **carried) -> ProtocolError:
    with HostileVendor(raw(data)) as vendor, HttpSession(vendor.url, policy=LOOPBACK, **carried) as session:
        with pytest.raises(ProtocolError) as caught:
            session.get("/tools")
        assert vendor.port
    return caught.value


@pytest.mark.parametrize(
    "line",
    [b"this is no header", b"Content-Length : 2", "X-Größe: 2".encode(), b"X-A: b\rno colon"],
    ids=["no colon", "a space before it", "no ASCII", "a lone CR"],
)
def test_a_header_that_is_none_is_refused_at_once_and_the_key_stays_out_of_the_log(line, caplog):
    caplog.set_level(logging.DEBUG)
    head = HEAD + b"X-Heard: " + KEY[:6].encode() + b"\r\n" + line + b"\r\nContent-Length: 2\r\n\r\n{}"
    error = refusal(head, credential=QueryKey("key", KEY))
    assert (error.code, error.message.partition(" sent ")[2]) == ("HEADERS", "a header that cannot be read.")
    assert KEY not in caplog.text
    assert "Traceback" not in caplog.text


def test_white_space_before_a_document_is_not_its_end():
    document = b" \n" * 2_000 + b'{"openapi": "3.1.0", "paths": {}}'
    assert openapi_document.parse(document).operations == []


@pytest.mark.parametrize(
    ("cursor", "where"),
    [("file:///etc/passwd", "file:"), ("https://us:secret@evil.example/x", "evil.example")],
)
def test_a_list_that_goes_on_elsewhere_is_told_by_its_host_alone(cursor, where):
    with pytest.raises(ProtocolError) as caught:
        paging.cursor_of_url(cursor, "pageCursor", "https://vendor.example", "paging.next")
    assert caught.value.message == (
        f"The list continues at {where}. Pegboard does not follow a list to another server."
    )


@pytest.mark.django_db(transaction=True)
def test_a_person_and_the_scheduler_who_start_one_reading_do_not_stop_each_other():
    endpoint, started = make_endpoint(), []

    def ask() -> None:
        try:
            started.append(enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON))
        finally:
            connection.close()

    person = threading.Thread(target=ask)
    with transaction.atomic():
        Endpoint.objects.select_for_update(no_key=True).get(pk=endpoint.pk)  # as `tick` does
        person.start()
        while not _somebody_waits_for_a_lock():
            time.sleep(0.01)
        run, is_new = enumeration_runs.queue(endpoint, Trigger.SCHEDULE, None, None)
    person.join(30)
    assert (started, is_new) == ([run], True)


def _somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot(), count(*) FROM pg_locks WHERE NOT granted")
        return cursor.fetchone()[1] > 0
