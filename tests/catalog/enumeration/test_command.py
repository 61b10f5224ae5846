from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from catalog.models import Run, ToolVersion
from tests.factories import make_endpoint, make_vendor
from tests.vendor import Vendor, serving, tool, tools

pytestmark = pytest.mark.django_db(transaction=True)


def enumerate_now(*arguments: str) -> tuple[list[str], list[str], str]:
    """Return the command's output, its errors and its exit status."""
    out, err, end = StringIO(), StringIO(), ""
    try:
        call_command("enumerate", *arguments, stdout=out, stderr=err)
    except CommandError as error:
        end = str(error)
    return out.getvalue().splitlines(), err.getvalue().splitlines(), end


def test_one_endpoint_is_read_in_the_foreground(vendor):
    endpoint = make_endpoint(vendor=make_vendor(name="Acme"), url=vendor.url, name="Main")
    make_endpoint()

    output, complained, end = enumerate_now(str(endpoint.pk))

    run = Run.objects.get()
    assert (run.trigger, run.status) == ("command", "succeeded")
    assert output == [
        f"Acme, Main (run {run.pk})",
        "  page 1, 10 tools so far",
        "  page 2, 20 tools so far",
        "  page 3, 25 tools so far",
        "  25 tools on 3 pages: 25 added, 0 changed, 0 unchanged, 0 withdrawn, 0 rejected",
    ]
    assert (complained, end) == ([], "")


def test_every_live_endpoint_is_read(vendor):
    first, second = make_endpoint(url=vendor.url), make_endpoint(url=vendor.url, is_paused=True)
    make_endpoint(removed_at=timezone.now())
    make_endpoint(vendor=make_vendor(removed_at=timezone.now()))

    _, complained, end = enumerate_now()

    assert [run.endpoint for run in Run.objects.order_by("pk")] == [first, second]
    assert (complained, end) == ([], "")


def test_older_versions_are_read_too():
    archive = Vendor([tool(1, version=2)])
    archive.history[tool(1)["toolId"]] = [tool(1, version=2), tool(1, version=1)]
    with serving(archive):
        endpoint = make_endpoint(url=archive.url)
        output, _, _ = enumerate_now(str(endpoint.pk))

    assert output[-1] == "  1 older versions"
    assert ToolVersion.objects.count() == 2


def test_failure_is_explained_and_the_others_are_read(vendor):
    with serving(Vendor(tools(1))) as broken:
        broken.script = lambda number, document: (404, b"{}")
        make_endpoint(url=broken.url)
        make_endpoint(url=vendor.url)
        output, complained, end = enumerate_now()

    assert len(complained) == 1
    assert complained[0].startswith("  NOT_FOUND: ")
    assert "25 tools" in output[-1]
    assert end == "1 of 2 endpoints could not be read."


@pytest.mark.parametrize("number", ["999999", "-1", "9" * 30])
def test_unknown_endpoint_is_told(number):
    assert enumerate_now("--", number)[2] == f"There is no endpoint {number}."


def test_removed_endpoint_is_told():
    endpoint = make_endpoint(removed_at=timezone.now())

    assert enumerate_now(str(endpoint.pk))[2] == f"There is no endpoint {endpoint.pk}."
    assert not Run.objects.exists()


def test_what_is_no_number_is_refused():
    assert "invalid int value" in enumerate_now("weather")[2]


def test_nothing_to_read_says_what_to_do():
    assert enumerate_now() == (["There is no endpoint to read yet. Connect a vendor first."], [], "")


def test_run_that_a_worker_has_is_left_to_it(vendor):
    endpoint = make_endpoint(url=vendor.url)
    lease = timezone.now() + timedelta(minutes=1)
    Run.objects.create(endpoint=endpoint, status="running", attempt=1, lease_until=lease)

    output, complained, end = enumerate_now(str(endpoint.pk))

    assert output[-1] == "  a worker is reading it at this moment"
    assert (complained, end, vendor.requests) == ([], "", [])


def test_run_that_waits_in_the_queue_is_done_at_once(vendor):
    endpoint = make_endpoint(url=vendor.url)
    Run.objects.create(endpoint=endpoint)

    enumerate_now(str(endpoint.pk))

    assert Run.objects.get().status == "succeeded"


def test_held_answer_ends_with_its_reason(vendor):
    endpoint = make_endpoint(url=vendor.url)
    enumerate_now(str(endpoint.pk))
    vendor.listed = []

    _, complained, end = enumerate_now(str(endpoint.pk))

    assert complained[0].startswith("  EMPTY_HELD: ")
    assert end == "1 of 1 endpoints could not be read."
