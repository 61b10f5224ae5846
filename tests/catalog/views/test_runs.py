import re

import pytest
from django.utils import timezone

from catalog.models import Endpoint, Rejection, Run, Withdrawal
from people.models import Role
from tests.factories import make_endpoint, make_tool, make_version
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


def make_run(**fields):
    endpoint = fields.pop("endpoint", None) or make_endpoint()
    return Run.objects.create(endpoint=endpoint, **{"status": "succeeded"} | fields)


def test_an_active_run_asks_for_its_own_progress(admin):
    run = make_run(status="running", pages=3, seen=300)

    page = admin.get(f"/runs/{run.pk}/")

    assert f'hx-get="/runs/{run.pk}/" hx-trigger="every 1s"' in page.content.decode()
    assert "Syncing. 3 pages and 300 tools so far." in text_of(page)


def test_progress_is_the_same_part_that_the_page_holds(admin):
    run = make_run(status="running")

    part = admin.get(f"/runs/{run.pk}/", headers={"HX-Request": "true"}).content.decode()

    assert "<html" not in part
    assert 'id="run"' in part


def test_a_finished_run_no_longer_asks(admin):
    run = make_run(seen=40, unchanged=40)

    page = admin.get(f"/runs/{run.pk}/")

    assert "hx-trigger" not in page.content.decode()
    assert "Read 40 tools. No changes." in text_of(page)


def test_a_run_lists_what_it_added_changed_and_withdrew(admin):
    endpoint = make_endpoint()
    run = make_run(endpoint=endpoint, seen=3, added=1, changed=1, withdrawn=1)
    new = make_tool(endpoint=endpoint, name="brand_new")
    changed = make_tool(endpoint=endpoint, name="older_tool")
    make_version(changed, run=run)
    removed_tool = make_tool(endpoint=endpoint, name="gone_tool")
    make_version(new, run=run)
    Withdrawal.objects.create(tool=removed_tool, run=run)

    page = admin.get(f"/runs/{run.pk}/")

    assert "1 new, 1 changed, 1 withdrawn" in text_of(page)
    assert f"/tools/{changed.pk}/versions/?to=2" in page.content.decode()
    assert "gone_tool" in text_of(page)


def test_rejected_items_are_listed_with_their_reasons(admin):
    run = make_run(seen=2, rejected=1)
    Rejection.objects.create(run=run, tool="#2", code="NAME_TOO_LONG", reason="Its name has 300 characters.")

    assert "#2 Its name has 300 characters. NAME_TOO_LONG" in text_of(admin.get(f"/runs/{run.pk}/"))


@pytest.mark.parametrize(
    ("rejected", "expected_text"),
    [(3, "None of the 3 tools could be read"), (1, "1 of 3 tools could not be read")],
)
def test_an_endpoint_says_how_many_tools_its_last_complete_reading_refused(admin, rejected, expected_text):
    run = make_run(seen=3, rejected=rejected)
    make_run(endpoint=run.endpoint, status="failed", error_code="IDLE")

    page = admin.get(f"/endpoints/{run.endpoint_id}/")

    assert expected_text in text_of(page)
    assert f'href="/runs/{run.pk}/#run-rejected"' in page.content.decode()


def test_an_endpoint_whose_tools_were_all_read_says_nothing_of_it(admin):
    run = make_run(seen=3)
    make_run(endpoint=run.endpoint, status="failed", seen=3, rejected=2)

    assert "could not be read" not in text_of(admin.get(f"/endpoints/{run.endpoint_id}/"))


def test_a_run_that_read_nothing_shows_no_figures(admin):
    failed = make_run(status="failed", error_code="CONNECT", error_message="It could not be reached.")
    cut_off = make_run(status="failed", error_code="TIMEOUT", error_message="Too slow.", pages=2, seen=120)

    assert "Tools seen" not in text_of(admin.get(f"/runs/{failed.pk}/"))
    assert "Tools seen 120" in text_of(admin.get(f"/runs/{cut_off.pk}/"))


def test_a_failed_run_says_what_to_do(admin):
    run = make_run(status="failed", error_code="TIMEOUT", error_message="The vendor did not answer.")

    page = admin.get(f"/runs/{run.pk}/")

    assert "The vendor did not answer." in text_of(page)
    assert f"/endpoints/{run.endpoint_id}/?tab=settings" in page.content.decode()


def test_the_error_is_first_with_its_action_beside_it(admin):
    run = make_run(status="failed", error_code="TIMEOUT", error_message="The vendor did not answer.", pages=2)
    Endpoint.objects.filter(pk=run.endpoint_id).update(failures=2, error_message=run.error_message)
    pages = [f"/runs/{run.pk}/", f"/endpoints/{run.endpoint_id}/", f"/vendors/{run.endpoint.vendor.slug}/"]
    for page in pages:
        content = admin.get(page).content.decode()
        main = content[content.index("<main") :]
        error, action = main.index("The vendor did not answer."), main.index("Try again</button>")
        assert error < action < main.index('class="panel'), page


def test_zeros_are_not_shown(admin):
    run = make_run(seen=3, added=3)
    address = f"/endpoints/{run.endpoint_id}/"
    for page in (f"/runs/{run.pk}/", address, f"/vendors/{run.endpoint.vendor.slug}/"):
        content = admin.get(page).content.decode()
        numbers = re.findall(r"<(?:dd|td)[^>]*>\s*(?:<a[^>]*>)?([^<]*)<", content)
        assert not {"0", "0 new", "0 withdrawn"} & {number.strip() for number in numbers}, page
    assert 'id="settings"' in admin.get(f"{address}?tab=settings").content.decode()
    assert 'id="settings"' not in admin.get(address).content.decode()


@pytest.fixture
def held_run():
    run = make_run(
        status="failed",
        error_code="SHRINK_HELD",
        error_message="88 of 100 tools are missing.",
        would_withdraw=88,
        finished_at=timezone.now(),
    )
    run.endpoint.held_run = run
    run.endpoint.save()
    return run


def test_a_held_run_asks_before_it_withdraws(admin, held_run):
    assert "Yes, withdraw 88 tools" in text_of(admin.get(f"/runs/{held_run.pk}/"))


def test_confirming_starts_a_run_that_may_withdraw(admin, held_run):
    response = admin.post(f"/runs/{held_run.pk}/confirm/")

    run = Run.objects.latest("pk")
    assert response["Location"] == f"/runs/{run.pk}/"
    assert run.may_withdraw == 88


def test_confirming_too_late_says_so(admin, held_run):
    held_run.endpoint.held_run = None
    held_run.endpoint.save()

    response = admin.post(f"/runs/{held_run.pk}/confirm/", follow=True)

    assert "does not wait for a decision any more" in text_of(response)


def test_only_an_administrator_may_confirm(held_run):
    assert signed_in(Role.DESIGNER).post(f"/runs/{held_run.pk}/confirm/").status_code == 403
