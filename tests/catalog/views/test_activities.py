"""The pages on which activities are set up, as a browser without a script sends them."""

import json

import pytest
from django.urls import reverse

from catalog.credentials import operations as credentials
from catalog.models import Activity
from execution.activities import operations
from people.models import AuditEntry, Role, User
from protocols.signature import AllowedValue
from tests.catalog.views.test_definitions import Fields
from tests.factories import (
    make_endpoint,
    make_parameter,
    make_signature,
    make_tool,
    make_vendor,
    make_version,
)
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
NEW = "/activities/new/?kind="


@pytest.fixture
def mail():
    """A tool that sends messages, and the tools of two vendors that can replace it."""
    text = ("to", "heading", "text")
    post = make_tool(
        make_signature(
            "deliver_message",
            description="Deliver an e-mail to one address.",
            inputs=tuple(make_parameter(name, required=name != "text") for name in text),
            outputs=(make_parameter("accepted", type="boolean"), make_parameter("number")),
        ),
        endpoint=make_endpoint(vendor=make_vendor(name="Pennypost")),
    )
    notes = make_tool(
        make_signature(
            "send_note",
            description="Send a note by e-mail.",
            inputs=(
                make_parameter("email_address"),
                make_parameter("title"),
                make_parameter("message"),
                make_parameter("at_hour", type="int", required=False, min=0, max=23),
            ),
            outputs=(make_parameter("sent", type="boolean"), make_parameter("note_id")),
        ),
        endpoint=make_endpoint(vendor=make_vendor(name="Larkspur")),
    )
    finder = make_tool(
        make_signature(
            "find_person",
            description="Look somebody up in the address book.",
            inputs=(make_parameter("name"),),
            outputs=(
                make_parameter(
                    "person",
                    type="json",
                    schema={
                        "type": "object",
                        "properties": {
                            "mail": {"type": "string"},
                            "boxes": {
                                "type": "array",
                                "items": {"type": "object", "properties": {"a/b": {}}},
                            },
                        },
                    },
                ),
            ),
        ),
        endpoint=make_endpoint(vendor=make_vendor(name="Bookworm")),
    )
    return post, notes, finder


def press(client, url, response, act="save", **typed):
    """Press a button of the page after typing into its fields."""
    return client.post(url, Fields(response).sent | typed | {"act": act})


def user_of(client):
    return User.objects.get(pk=client.session["_auth_user_id"])


def calls(tool):
    return f"tool:{tool.pk}:{tool.current.ordinal}"


def row_of(response, name):
    """Return the name of the row's fields by a value in them."""
    fields_sent = Fields(response).sent
    return next(
        key for key, value in fields_sent.items() if value == name and key.endswith(("-name", "-typed"))
    )[:-5]


def picks(**source):
    return json.dumps(source, separators=(",", ":"))


def test_a_designer_finds_another_vendors_tool_and_completes_what_is_proposed(mail):
    post, notes, _ = mail
    client = signed_in(Role.DESIGNER)
    assert "Choose the tool to implement" in text_of(client.get(NEW + "vendor"))
    url = NEW + "vendor"
    page = press(client, url, client.get(url), "find-interface", **{"find-interface": "deliver an e-mail"})
    assert "Pennypost" in text_of(page)
    page = press(client, url, page, f"interface-{calls(post)}")
    # Enter in the box seeks as well, and saves nothing.
    page = press(client, url, page, "enter", name="By Larkspur", **{"find-step": "send a note"})
    assert "Larkspur" in text_of(page)
    page = press(client, url, page, f"add-{calls(notes)}", **{"find-step": ""})
    page_text = text_of(page)
    assert "similar meaning, to be checked" in page_text
    assert "is optional, and" not in page_text

    page = press(client, url, page)
    assert "“text” is optional, and “message” is required." in text_of(page)
    assert not Activity.objects.exists()
    row = row_of(page, "message")
    saved = press(client, url, page, **{f"{row}-otherwise": "(no text)"})

    activity = Activity.objects.get()
    assert saved.headers["Location"] == reverse("activity", args=[activity.pk])
    assert activity.name == "By Larkspur"
    assert activity.current.config["steps"][0]["inputs"] == {
        "email_address": {"input": "to"},
        "title": {"input": "heading"},
        "message": {"input": "text", "otherwise": "(no text)"},
    }
    assert activity.current.config["outputs"]["accepted"] == {"step": 1, "output": "sent"}
    assert AuditEntry.objects.filter(action="create", kind="activity").exists()


def test_steps_are_added_moved_and_taken_out_without_losing_what_was_typed(mail):
    post, notes, finder = mail
    client = signed_in(Role.DESIGNER)
    url = f"{NEW}composite&interface={calls(post)}"
    page = press(client, url, client.get(url), f"add-{calls(notes)}", name="Look up, then send")
    page = press(client, url, page, f"add-{calls(finder)}")
    page = press(client, url, page, "up-1")
    assert Fields(page).sent["steps-0-calls"] == calls(finder)
    part = picks(step=1, output="person", at="/boxes/0/a~1b")
    assert "person of step 1 → boxes → 0 → a/b" in text_of(page)
    typed = {
        f"{row_of(page, 'name')}-from": picks(input="to"),
        f"{row_of(page, 'email_address')}-from": part,
        f"{row_of(page, 'title')}-from": "fixed",
        f"{row_of(page, 'title')}-value": "Hello",
        f"{row_of(page, 'message')}-otherwise": "-",
        f"{row_of(page, 'at_hour')}-from": "fixed",
        f"{row_of(page, 'at_hour')}-value": "soon",
    }
    page = press(client, url, page, **typed)
    assert "The fixed value is not a whole number." in text_of(page) or "soon" in Fields(page).sent.values()
    assert not Activity.objects.exists()
    press(client, url, page, **{f"{row_of(page, 'at_hour')}-value": "9"})

    steps = Activity.objects.get().current.config["steps"]
    assert [step["tool"] for step in steps] == [finder.pk, notes.pk]
    assert steps[1]["inputs"]["email_address"] == json.loads(part)
    assert steps[1]["inputs"]["at_hour"] == {"value": 9}
    assert Activity.objects.get().current.config["outputs"]["accepted"]["step"] == 2

    activity = Activity.objects.get()
    change = reverse("activity-change", args=[activity.pk])
    page = press(client, change, client.get(change), "drop-0")
    assert "email_address" not in [value for value in Fields(page).sent.values() if "step" in value]
    assert "“send_note” requires “email_address”. Choose its source." in text_of(page)
    assert activity.current.number == 1


def test_what_is_saved_comes_back_as_it_was(mail):
    post, notes, _ = mail
    config = {
        "steps": [
            {
                "tool": notes.pk,
                "ordinal": 1,
                "inputs": {
                    "email_address": {"input": "to", "otherwise": ""},
                    "title": {"value": "5"},
                    "message": {"input": "text", "otherwise": "two\nlines"},
                    "at_hour": {"value": 7},
                },
            }
        ],
        "outputs": {"accepted": {"value": True}, "number": {"step": 1, "output": "note_id", "at": ""}},
    }
    client = signed_in(Role.DESIGNER)
    activity = operations.create(
        actor=user_of(client), name="Notes", kind="vendor", config=config, interface=post.current
    )
    saved_config = activity.current.config
    url = reverse("activity-change", args=[activity.pk])
    press(client, url, client.get(url), name="Renamed")
    activity.refresh_from_db()
    assert (activity.name, activity.current.config, activity.current.number) == ("Renamed", saved_config, 1)

    page = press(client, url, client.get(url), "json", json='{"steps": [}')
    assert "JSON" in text_of(page)
    assert Fields(page).sent["json"] == '{"steps": [}'
    page = press(client, url, client.get(url), json=json.dumps({"steps": []}), name="Ignored")
    assert "is not applied yet" in text_of(page)
    activity.refresh_from_db()
    assert (activity.name, activity.current.number) == ("Renamed", 1)
    assert "is not applied yet" not in text_of(press(client, url, page, "forget"))
    other = json.dumps({**saved_config, "outputs": {"number": {"step": 1, "output": "note_id"}}})
    page = press(client, url, page, "json", json=other)
    press(client, url, page, name="Renamed")
    activity.refresh_from_db()
    assert activity.current.number == 2
    assert set(activity.current.config["outputs"]) == {"number"}


def test_two_designers_do_not_write_over_each_other(mail):
    post, notes, _ = mail
    client = signed_in(Role.DESIGNER)
    config = {
        "steps": [
            {
                "tool": notes.pk,
                "ordinal": 1,
                "inputs": {
                    "email_address": {"input": "to"},
                    "title": {"input": "heading"},
                    "message": {"value": "x"},
                },
            }
        ]
    }
    activity = operations.create(
        actor=user_of(client), name="Notes", kind="vendor", config=config, interface=post.current
    )
    url = reverse("activity-change", args=[activity.pk])
    opened = client.get(url)
    operations.change(activity, actor=user_of(client), name="Theirs")
    late = press(client, url, opened, name="Mine")
    assert late.status_code == 409
    assert "has changed this since you opened it" in text_of(late)
    press(client, url, late, name="Mine")
    activity.refresh_from_db()
    assert activity.name == "Mine"


def test_a_version_that_moved_on_is_offered_and_its_gone_input_is_named(mail):
    post, notes, _ = mail
    client = signed_in(Role.DESIGNER)
    config = {
        "steps": [
            {
                "tool": notes.pk,
                "ordinal": 1,
                "inputs": {
                    "email_address": {"input": "to"},
                    "title": {"input": "heading"},
                    "message": {"value": "x"},
                },
            }
        ]
    }
    activity = operations.create(
        actor=user_of(client), name="Notes", kind="vendor", config=config, interface=post.current
    )
    kinds = make_parameter("kind", type="enum", allowed_values=(AllowedValue("plain"), AllowedValue("rich")))
    newer = make_version(
        notes, make_signature("send_note", inputs=(make_parameter("email_address"), kinds), outputs=())
    )
    url = reverse("activity-change", args=[activity.pk])
    page = press(client, url, client.get(url), f"replace-0-tool:{notes.pk}:{newer.ordinal}")
    page_text = text_of(page)
    assert "There is no such input any more." in page_text
    assert "“send_note” requires “kind”." in page_text
    cleared = {f"{row_of(page, name)}-from": "" for name in ("title", "message")}
    kind = row_of(page, "kind")
    press(client, url, page, **cleared, **{f"{kind}-from": "fixed", f"{kind}-value": "rich"})
    activity.refresh_from_db()
    assert activity.current.config["steps"][0] == {
        "tool": notes.pk,
        "ordinal": newer.ordinal,
        "inputs": {"email_address": {"input": "to"}, "kind": {"value": "rich"}},
    }


def test_an_activity_that_is_a_step_of_another_is_not_removed(mail):
    post, notes, _ = mail
    client = signed_in(Role.DESIGNER)
    inputs = {"email_address": {"value": "a@b.example"}, "title": {"value": "x"}, "message": {"value": "x"}}
    step = {"tool": notes.pk, "ordinal": 1, "inputs": inputs}
    inner = operations.create(
        actor=user_of(client), name="Inner", kind="vendor", config={"steps": [step]}, interface=post.current
    )
    step_inputs = {"to": {"value": "a"}, "heading": {"value": "b"}}
    outer = operations.create(
        actor=user_of(client),
        name="Outer",
        kind="composite",
        config={"steps": [{"activity": inner.pk, "inputs": step_inputs}]},
        interface=post.current,
    )
    refused = client.post(reverse("activity-remove", args=[inner.pk]), follow=True)
    assert "is a step of “Outer”" in text_of(refused)
    page = text_of(client.get(reverse("activity", args=[inner.pk])))
    assert "Step of" in page
    assert "It calls the implementation Inner" in text_of(client.get(reverse("activity", args=[outer.pk])))
    client.post(reverse("activity-remove", args=[outer.pk]))
    client.post(reverse("activity-remove", args=[inner.pk]))
    assert not Activity.objects.live().exists()
    assert "No implementations yet" in text_of(client.get("/activities/"))


def test_viewers_read_activities_and_change_none(mail):
    post, notes, _ = mail
    designer = signed_in(Role.DESIGNER)
    inputs = {"email_address": {"input": "to"}, "title": {"value": "x"}, "message": {"value": "x"}}
    activity = operations.create(
        actor=user_of(designer),
        name="By Larkspur",
        kind="vendor",
        config={"steps": [{"tool": notes.pk, "ordinal": 1, "inputs": inputs}]},
        interface=post.current,
    )
    viewer = signed_in(Role.VIEWER)
    list_text = text_of(viewer.get("/activities/?q=deliver"))
    assert "send_note of Larkspur" in list_text
    assert "is-idle" in viewer.get("/activities/?q=deliver").content.decode()
    assert "No implementation matches" in text_of(viewer.get("/activities/?q=nonsense"))
    page_text = text_of(viewer.get(reverse("activity", args=[activity.pk])))
    assert "email_address is to" in page_text
    assert "title is always x" in page_text
    assert "Change" not in page_text
    assert viewer.get(reverse("activity-change", args=[activity.pk])).status_code == 403


@pytest.fixture
def weather():
    """A server for requests of activities."""
    signature = make_signature(
        "weather_now",
        inputs=(make_parameter("city"), make_parameter("units", required=False)),
        outputs=(make_parameter("sky"), make_parameter("trace", required=False)),
    )
    return make_tool(signature)


def test_a_request_is_set_up_in_rows(weather):
    client = signed_in(Role.DESIGNER)
    url = f"{NEW}http&interface={calls(weather)}"
    page = press(client, url, client.get(url), "check", name="Our weather", address="https://{city}.example/")
    assert "The host is fixed: it cannot contain an input." in text_of(page)
    typed = {
        "address": "https://weather.example/v1/{city}/now",
        "query-0-typed": "units",
        "query-0-from": picks(input="units"),
        "query-0-otherwise": "metric",
        "headers-0-typed": "Authorization",
        "headers-0-from": "fixed",
        "headers-0-value": "Bearer x",
        "outputs-0-of": "json",
        "outputs-0-at": "now/sky",
        "outputs-1-of": "header",
        "outputs-1-header": "X-Trace",
        "statuses-0-status": "404",
        "statuses-0-means": "invalid_arguments",
    }
    page = press(client, url, page, **typed)
    assert "The header “Authorization” cannot be set here." in text_of(page)
    assert Fields(page).sent["query-0-otherwise"] == "metric"
    page = press(client, url, page, "more", **{"headers-0-typed": "X-Named", "headers-0-from": ""})
    assert Fields(page).sent["headers-0-typed"] == "X-Named"
    page = press(client, url, page)
    assert "Choose one: an input, an output of an earlier step, or a fixed value." in text_of(page)
    press(client, url, page, **{"headers-0-typed": ""})
    activity = Activity.objects.get()
    assert activity.current.config == {
        "address": "https://weather.example/v1/{city}/now",
        "method": "GET",
        "query": {"units": {"input": "units", "otherwise": "metric"}},
        "outputs": {"sky": {"at": "/now/sky"}, "trace": {"of": "header", "header": "X-Trace"}},
        "statuses": {"404": "invalid_arguments"},
    }
    page_text = text_of(client.get(reverse("activity", args=[activity.pk])))
    assert "Sends GET https://weather.example/v1/{city}/now" in page_text
    assert "sky is the part /now/sky of the reply" in page_text
    change = reverse("activity-change", args=[activity.pk])
    press(client, change, client.get(change), name="Weather of ours")
    activity.refresh_from_db()
    assert (activity.name, activity.current.number) == ("Weather of ours", 1)
    assert "https://weather.example/v1/{city}/now" in text_of(client.get("/activities/?kind=http"))


def test_only_an_administrator_gives_a_request_a_credential(weather):
    admin, designer = signed_in(Role.ADMIN), signed_in(Role.DESIGNER)
    key = credentials.create_credential(
        actor=user_of(admin), name="Key", kind="bearer", url="http://127.0.0.1/", secret="s3cret"
    )
    url = f"{NEW}http&interface={calls(weather)}"
    typed = {"name": "Ours", "address": "http://127.0.0.1/now", "credential": str(key.pk)}
    assert "Key, for" not in text_of(designer.get(url))
    refused = press(designer, url, designer.get(url), **typed)
    assert "Only an administrator chooses a credential" in text_of(refused)
    assert not Activity.objects.exists()
    assert "Key, for http://127.0.0.1" in text_of(admin.get(url))
    press(admin, url, admin.get(url), **typed)
    activity = Activity.objects.get()
    assert activity.current.config["credential"] == str(key.pk)
    change = reverse("activity-change", args=[activity.pk])
    page = designer.get(change)
    assert "Only an administrator can change an implementation with a credential." in text_of(page)
    assert press(designer, change, page, name="Mine").status_code == 200
    activity.refresh_from_db()
    assert activity.name == "Ours"
