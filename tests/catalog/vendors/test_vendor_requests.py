"""Designers request vendors, administrators answer, and the designer is notified."""

import pytest
import time_machine
from django.urls import reverse

from catalog.forms import ConnectForm
from catalog.models import Endpoint, VendorRequest
from catalog.models.vendor_requests import RequestState
from catalog.notifications import dispatch, subscriptions
from catalog.notifications.models import Event, Mail, MailAddress, Notice
from catalog.vendors import vendor_requests
from core.numbered_pages import PAGE_SIZE
from core.outbound import policy
from core.outbound.policy import AddressSource, Door
from people.models import AuditEntry, Role
from tests.clients import client_of, signed_in
from tests.factories import make_endpoint, make_user, make_vendor
from tests.pages import text_of

URL = "/api/v1/vendor-requests/"
ASKED = {"protocol": "a2t", "vendor_name": "Weather", "reason": "Tomorrow's rain for the front desk."}


@pytest.fixture
def bob(db):
    return make_user(Role.DESIGNER, username="bob")


@pytest.fixture
def api(bob):
    return client_of(bob)


@pytest.fixture
def public_vendor(vendor, monkeypatch):
    """A vendor on this machine whose address counts as public to designers."""
    monkeypatch.setitem(policy.POLICIES, (Door.PREVIEW, AddressSource.DESIGNER), policy.outbound_policy)
    return vendor


@pytest.fixture
def page(client, bob):
    client.force_login(bob)
    return client


def ask(api, url="http://127.0.0.1:9/", **more):
    return api.post(URL, {**ASKED, "url": url} | more)


def test_a_designer_asks_and_everyone_may_read_it(api):
    created = ask(api)
    assert created.status_code == 201
    row = VendorRequest.objects.get()
    assert created.json() == {
        **ASKED,
        "id": row.pk,
        "url": "http://127.0.0.1:9/",
        "asked_by": "bob",
        "asked_at": created.json()["asked_at"],
        "state": "waiting",
        "answer": "",
        "answered_by": None,
        "answered_at": None,
        "endpoint": None,
    }
    assert not Endpoint.objects.exists()
    entry = AuditEntry.objects.get(kind="vendorrequest")
    assert (entry.action, entry.actor_name, entry.after["reason"]) == ("ask", "bob", ASKED["reason"])
    viewer = signed_in(Role.VIEWER)
    assert [row["id"] for row in viewer.get(URL, {"state": "waiting"}).json()["results"]] == [row.pk]
    assert viewer.get(f"{URL}{row.pk}/").json()["state"] == "waiting"
    assert viewer.get(URL, {"state": "lost"}).status_code == 400
    assert ask(viewer).status_code == 403


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": "ftp://127.0.0.1/"}, "url"),
        ({"url": "http://bob:secret@127.0.0.1:9/"}, "url"),
        ({"reason": " "}, "reason"),
        ({"reason": "x" * 2_001}, "reason"),
        ({"vendor_name": "we\u202eather"}, "name"),
    ],
)
def test_what_an_administrator_could_not_connect_is_refused(api, fields, field):
    reply = ask(api, **fields)
    assert reply.status_code == 400
    assert field in reply.json()["fields"]
    assert not VendorRequest.objects.exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_networks_that_are_open_to_vendors_are_closed_to_a_designers_preview(api, admin_api, vendor, host):
    inside = {"protocol": "a2t", "url": vendor.url.replace("127.0.0.1", host)}
    preview = api.post(f"{URL}preview/", inside).json()
    assert (preview["tools"], preview["error"] is None) == (0, False)
    assert vendor.headers == []
    assert admin_api.post(f"{URL}preview/", inside).json()["tools"] == 25


def test_a_preview_is_read_without_a_credential_and_nothing_is_kept(api, admin_api, public_vendor):
    preview = api.post(f"{URL}preview/", {"protocol": "a2t", "url": public_vendor.url}).json()
    assert (preview["tools"], preview["error"]) == (25, None)
    assert not any("authorization" in headers for headers in public_vendor.headers)
    assert not Endpoint.objects.exists()
    # An administrator sees the same answer: private addresses are never requested.
    private = {"protocol": "a2t", "url": "http://10.1.2.3/"}
    refused = api.post(f"{URL}preview/", private).json()
    assert refused["error"]["code"] == "ADDRESS"
    assert refused == admin_api.post("/api/v1/endpoints/preview/", private).json()


def test_previews_are_limited(api, vendor, monkeypatch):
    monkeypatch.setattr(vendor_requests, "MAX_PREVIEWS", 1)
    with time_machine.travel("2026-11-22T12:00:10Z", tick=False):
        replies = [api.post(f"{URL}preview/", {"protocol": "a2t", "url": vendor.url}) for _ in range(2)]
    assert replies[0].status_code == 200
    reply = replies[1]
    assert (reply.status_code, reply.json()["code"]) == (429, "too_many_previews")
    assert reply.headers["Retry-After"] == "50"


def test_what_is_connected_or_asked_for_is_not_asked_for_again(api, page):
    ask(api)
    again = ask(api, url="http://127.0.0.1:9")
    assert (again.status_code, again.json()["code"]) == (409, "already_asked")
    assert VendorRequest.objects.count() == 1
    form = {**ASKED, "url": "http://127.0.0.1:9/"}
    page_html = page.post(reverse("vendor-request-new"), form).content.decode()
    assert VendorRequest.objects.get().path in page_html

    endpoint = make_endpoint(vendor=make_vendor(name="Known"), url="http://127.0.0.1:8/")
    already_connected = ask(api, url="http://127.0.0.1:8/")
    assert (already_connected.status_code, already_connected.json()["code"]) == (409, "already_connected")
    page_html = page.post(
        reverse("vendor-request-new"), {**ASKED, "url": "http://127.0.0.1:8/"}
    ).content.decode()
    assert reverse("endpoint", args=[endpoint.pk]) in page_html
    assert ASKED["reason"].replace("'", "&#x27;") in page_html


def test_one_user_does_not_fill_the_list(api, bob, monkeypatch):
    monkeypatch.setattr(vendor_requests, "MAX_WAITING", 1)
    ask(api)
    assert ask(api, url="http://127.0.0.1:8/").json()["code"] == "too_many_requests"


def test_the_path_of_a_request_opens_the_page_of_the_list_that_has_it(page):
    made = [
        VendorRequest.objects.create(
            protocol="a2t", address=f"http://127.0.0.1:9/{number}", vendor_name="Weather"
        )
        for number in range(PAGE_SIZE + 1)
    ]
    for row in made:
        assert f'id="request-{row.pk}"' in page.get(row.path).content.decode()
    VendorRequest.objects.update(state="declined")
    for row in made:
        assert f'id="request-{row.pk}"' in page.get(row.path).content.decode()


def test_connecting_the_address_answers_the_request(api, admin_api, bob):
    request = ask(api).json()["id"]
    other = ask(client_of(make_user(Role.DESIGNER)), protocol="mcp").json()["id"]
    vendor = make_vendor(slug="weather")
    response = admin_api.post(
        "/api/v1/endpoints/", {"vendor": vendor.slug, "protocol": "a2t", "url": "http://127.0.0.1:9"}
    )
    assert response.status_code == 201
    row = VendorRequest.objects.get(pk=request)
    assert (row.state, row.endpoint_id) == (RequestState.APPROVED, response.json()["id"])
    assert VendorRequest.objects.get(pk=other).is_waiting
    entry = AuditEntry.objects.get(kind="vendorrequest", action="approve")
    assert entry.before == {"endpoint": None, "state": "waiting"}
    assert entry.after == {"endpoint": row.endpoint_id, "state": "approved"}


def test_a_corrected_address_answers_the_request_that_is_named(api, admin_api):
    request = ask(api).json()["id"]
    body = {"vendor": make_vendor().slug, "protocol": "a2t", "url": "http://127.0.0.1:9/a2t/"}
    assert admin_api.post("/api/v1/endpoints/", body | {"vendor_request": request}).status_code == 201
    assert not VendorRequest.objects.get(pk=request).is_waiting
    # A request is answered once.
    body["url"] = "http://127.0.0.1:9/other/"
    refused = admin_api.post("/api/v1/endpoints/", body | {"vendor_request": request})
    assert (refused.status_code, refused.json()["code"]) == (409, "request_answered")
    assert Endpoint.objects.count() == 1


def test_an_administrator_connects_it_by_the_form_that_is_filled_in(client, api):
    request = ask(api).json()["id"]
    client.force_login(make_user(Role.ADMIN))
    page = client.get(reverse("endpoint-new"), {"request": request})
    form = page.context["form"]
    assert (form["url"].value(), form["protocol"].value()) == ("http://127.0.0.1:9/", "a2t")
    assert form["vendor_name"].value() == "Weather"
    assert "Tomorrow&#x27;s rain" in page.content.decode()

    client.post(reverse("endpoint-new"), filled_in(page) | {"url": "http://127.0.0.1:9/tools/"})
    row = VendorRequest.objects.get()
    assert (row.state, row.endpoint.vendor.name) == (RequestState.APPROVED, "Weather")


def connect_form(client, request):
    """The form of an administrator who opened it for `request`, as it was filled in."""
    client.force_login(make_user(Role.ADMIN))
    return filled_in(client.get(reverse("endpoint-new"), {"request": request}))


def filled_in(page):
    form = page.context["form"]
    return {name: form[name].value() for name in form.fields if form[name].value() not in (None, "", [])}


def declined(api, admin_api, request) -> None:
    admin_api.post(f"{URL}{request}/decline/", {"answer": "Too dear."})


def connected(api, admin_api, request) -> None:
    body = {"vendor": make_vendor().slug, "protocol": "a2t", "url": "http://127.0.0.1:9/"}
    admin_api.post("/api/v1/endpoints/", body)


def taken_back(api, admin_api, request) -> None:
    assert api.delete(f"{URL}{request}/").status_code == 204


@pytest.mark.parametrize(
    ("happens", "expected_text"),
    [
        (declined, "“Weather” was declined"),
        (connected, "“Weather” was connected"),
        (taken_back, "was withdrawn"),
    ],
)
def test_an_open_form_goes_on_without_a_request_that_waits_no_longer(
    client, api, admin_api, happens, expected_text
):
    request = ask(api).json()["id"]
    payload = connect_form(client, request) | {"url": "http://127.0.0.1:9/tools/"}
    happens(api, admin_api, request)
    count = Endpoint.objects.count()

    response = client.post(reverse("endpoint-new"), payload)

    assert expected_text in text_of(response)
    assert Endpoint.objects.count() == count
    for endpoint in Endpoint.objects.all():
        assert reverse("endpoint", args=[endpoint.pk]) in response.content.decode()
    # The fields of that page can be saved, and a stored link fills in the same.
    assert client.post(reverse("endpoint-new"), filled_in(response) | {"again": "on"}).status_code == 302
    assert Endpoint.objects.count() == count + 1
    assert expected_text in text_of(client.get(reverse("endpoint-new"), {"request": request}))


def test_a_request_that_is_answered_while_the_form_is_saved_leaves_it_too(
    client, api, admin_api, monkeypatch
):
    request = ask(api).json()["id"]
    payload = connect_form(client, request)
    context = ConnectForm.vendor_request_context

    def answered_after_the_look(form):
        result = context(form)
        declined(api, admin_api, request)
        return result

    monkeypatch.setattr(ConnectForm, "vendor_request_context", answered_after_the_look)
    response = client.post(reverse("endpoint-new"), payload)

    assert "“Weather” was declined" in text_of(response)
    assert not Endpoint.objects.exists()
    assert client.post(reverse("endpoint-new"), filled_in(response)).status_code == 302


def test_a_corrected_address_of_an_endpoint_answers_the_requests_for_it(api, admin_api):
    request = ask(api).json()["id"]
    endpoint = make_endpoint(url="http://127.0.0.1:9/old/")

    change = {"url": "http://127.0.0.1:9"}
    assert admin_api.patch(f"/api/v1/endpoints/{endpoint.pk}/", change).status_code == 200

    request_body = api.get(f"{URL}{request}/").json()
    assert (request_body["state"], request_body["endpoint"]) == ("approved", endpoint.pk)
    assert AuditEntry.objects.filter(kind="vendorrequest", action="approve").count() == 1


def test_an_answer_leads_to_no_endpoint_that_is_gone(page, api, admin_api):
    request = ask(api).json()["id"]
    connected(api, admin_api, request)
    link = reverse("endpoint", args=[Endpoint.objects.get().pk])
    assert link in page.get("/").content.decode()

    admin_api.delete(f"/api/v1/endpoints/{Endpoint.objects.get().pk}/")

    home = page.get("/")
    assert link not in home.content.decode()
    assert "removed later by an administrator" in text_of(home)


def test_a_designer_takes_back_what_waits(client, page, api, admin_api):
    request = ask(api).json()["id"]
    url = reverse("vendor-request-take-back", args=[request])
    assert url in page.get(reverse("vendor-request-list")).content.decode()
    other = signed_in(Role.DESIGNER)
    assert url not in other.get(reverse("vendor-request-list")).content.decode()
    refused = other.delete(f"{URL}{request}/")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_yours")
    assert "another user" in text_of(other.post(url, follow=True))

    assert page.post(url).status_code == 302

    assert not VendorRequest.objects.exists()
    entry = AuditEntry.objects.get(kind="vendorrequest", action="take back")
    assert (entry.actor_name, entry.before["url"], entry.after) == ("bob", "http://127.0.0.1:9/", None)
    dispatch.settle_due()
    assert not Notice.objects.exclude(title="").exists()
    # It may be asked for again; what is answered stays.
    again = ask(api).json()["id"]
    declined(api, admin_api, again)
    late = api.delete(f"{URL}{again}/")
    assert (late.status_code, late.json()["code"]) == (409, "request_answered")
    assert VendorRequest.objects.filter(pk=again).exists()


def test_the_home_page_of_administrators_shows_what_waits(client, page, api):
    ask(api)
    assert "Vendor requests" not in page.get("/").content.decode()
    client.force_login(make_user(Role.ADMIN))
    page_html = client.get("/").content.decode()
    assert "Vendor requests" in page_html
    assert VendorRequest.objects.get().path in page_html


def test_an_administrator_declines_with_a_reason(client, api, admin_api):
    request = ask(api).json()["id"]
    url = reverse("vendor-request-decline", args=[request])
    client.force_login(make_user(Role.ADMIN))
    response = client.post(url, {"answer": " "}, follow=True)
    assert [message.level_tag for message in response.context["messages"]] == ["error"]
    assert VendorRequest.objects.get().is_waiting

    client.post(url, {"answer": "We have a contract with another one."})
    request_body = api.get(f"{URL}{request}/").json()
    assert (request_body["state"], request_body["answer"]) == (
        "declined",
        "We have a contract with another one.",
    )
    twice = admin_api.post(f"{URL}{request}/decline/", {"answer": "No."})
    assert (twice.status_code, twice.json()["code"]) == (409, "request_answered")
    # It may be asked for again.
    assert ask(api).status_code == 201
    assert api.post(f"{URL}{request}/decline/", {"answer": "No."}).status_code == 403


def test_administrators_are_told_and_then_the_one_who_asked(api, admin_api, bob, settings):
    settings.MAIL_IS_SET_UP = True
    ada, eve = make_user(Role.ADMIN, username="ada"), make_user(Role.DESIGNER, username="eve")
    for user in (ada, eve, bob):
        MailAddress.objects.create(user=user, address=f"{user}@example.com", confirmed_at="2026-01-01T00:00Z")
    for user in (ada, eve):
        subscriptions.choose(user, [Event.VENDOR_REQUESTED, Event.VENDOR_ANSWERED])

    request = ask(api).json()["id"]
    dispatch.settle_due()
    notice = Notice.objects.get(event="vendor.requested")
    assert (notice.title, notice.says) == ("bob asks for “Weather”", ASKED["reason"])
    assert notice.path == f"/vendor-requests/?request={request}#request-{request}"
    assert [mail.user for mail in Mail.objects.all()] == [ada]

    admin_api.post(f"{URL}{request}/decline/", {"answer": "Too dear."})
    dispatch.settle_due()
    answered = Notice.objects.get(event="vendor.answered")
    assert (answered.title, answered.says) == ("“Weather” was declined", "Too dear.")
    assert {mail.user for mail in Mail.objects.filter(notices=answered)} == {ada, bob}


def test_a_brace_in_a_name_is_a_brace(api, bob):
    bob.name = "Ada {Ops}"
    bob.save()
    ask(api)
    dispatch.settle_due()
    assert Notice.objects.get(event="vendor.requested").title == "Ada {Ops} asks for “Weather”"


def test_the_page_previews_asks_and_shows_the_outcome(page, client, public_vendor, admin_api):
    new, list_url = reverse("vendor-request-new"), reverse("vendor-request-list")
    fields = {"protocol": "a2t", "url": public_vendor.url}
    looked = page.post(new, fields | {"preview": "1"}).content.decode()
    assert "Nothing is saved yet." in looked
    assert not VendorRequest.objects.exists()
    assert "This field is required" in page.post(new, fields).content.decode()

    assert page.post(new, fields | ASKED).url == list_url
    page_html = page.get(list_url).content.decode()
    assert "Weather" in page_html
    assert "Decline" not in page_html
    row = VendorRequest.objects.get()
    admin_api.post(f"{URL}{row.pk}/decline/", {"answer": "Too dear."})
    assert "Too dear." in page.get(list_url).content.decode()
    assert "Too dear." in page.get("/").content.decode()
    client.force_login(make_user(Role.DESIGNER))
    assert "Too dear." not in client.get("/").content.decode()


def test_a_vendor_that_wants_a_credential_may_be_asked_for_all_the_same(page, public_vendor):
    public_vendor.script = lambda number, body: (401, b"{}")
    looked = page.post(
        reverse("vendor-request-new"), {"protocol": "a2t", "url": public_vendor.url, "preview": "1"}
    ).content.decode()
    assert "only with a credential, which an administrator adds" in looked
