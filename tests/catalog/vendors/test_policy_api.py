"""The policy for changed tools, set over REST and on the page of an endpoint."""

import itertools

import pytest

from catalog.models import Endpoint
from catalog.rules import policy
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_vendor
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
DEFAULT = {**dict.fromkeys(policy.CLASSES, "accept"), **dict.fromkeys(("drift", "alarm_high"), "hold")}


def url(endpoint: Endpoint) -> str:
    return f"/api/v1/endpoints/{endpoint.pk}/"


def test_an_endpoint_tells_its_whole_policy(designer_api):
    assert designer_api.get(url(make_endpoint())).json()["policy"] == DEFAULT


def test_what_is_left_out_stays_as_it_is(admin_api):
    endpoint = make_endpoint(policy={"text": "hold"})

    policy = admin_api.patch(url(endpoint), {"policy": {"new_tool": "block"}}, format="json").json()["policy"]

    assert policy == DEFAULT | {"text": "hold", "new_tool": "block"}
    entry = AuditEntry.objects.get(action="edit")
    assert (entry.before["policy"]["new_tool"], entry.after["policy"]["new_tool"]) == ("accept", "block")


def test_only_what_differs_from_the_default_is_kept(admin_api):
    endpoint = make_endpoint(policy={"text": "hold"})

    admin_api.patch(url(endpoint), {"policy": {"text": "accept", "alarm_high": "hold"}}, format="json")

    endpoint.refresh_from_db()
    assert endpoint.policy == {}


def test_a_policy_comes_with_a_new_endpoint(admin_api):
    body = {
        "vendor": make_vendor().slug,
        "protocol": "a2t",
        "url": "http://127.0.0.1:9/",
        "policy": {"new_tool": "hold"},
    }

    assert admin_api.post("/api/v1/endpoints/", body, format="json").json()["policy"]["new_tool"] == "hold"


@pytest.mark.parametrize(
    "policy", [{"text": "shrug"}, {"new_tools": "hold"}, {"text": None}, {"text": 1}, "hold", None, ["hold"]]
)
def test_what_is_no_policy_is_refused(admin_api, policy):
    endpoint = make_endpoint()

    answer = admin_api.patch(url(endpoint), {"policy": policy}, format="json")

    assert answer.status_code == 400
    assert [field.split(".")[0] for field in answer.json()["fields"]] == ["policy"]


def test_the_page_of_an_endpoint_shows_and_sets_it():
    endpoint, admin = make_endpoint(), signed_in(Role.ADMIN)
    page = text_of(admin.get(f"/endpoints/{endpoint.pk}/?tab=settings"))
    assert "Breaking for agents" in page

    payload = {"url": endpoint.url, "interval_minutes": 60, "policy-breaks_callers": "hold"}
    admin.post(f"/endpoints/{endpoint.pk}/", payload)

    endpoint.refresh_from_db()
    assert endpoint.policy == {"breaks_callers": "hold"}


@pytest.mark.parametrize("name", policy.PRESETS)
def test_a_preset_sets_every_class_of_change(name):
    endpoint, admin = make_endpoint(policy={"text": "block"}), signed_in(Role.ADMIN)
    page = admin.get(f"/endpoints/{endpoint.pk}/?tab=settings").context["form"]
    assert "own choice" in str(page["preset"])
    rows = {field.name: field.value() for field, _ in page.policy_rows()}
    payload = {"url": endpoint.url, "interval_minutes": 60, **rows}

    assert admin.post(f"/endpoints/{endpoint.pk}/", payload | {"preset": ""}).status_code == 302
    endpoint.refresh_from_db()
    assert endpoint.policy["text"] == "block"
    assert admin.post(f"/endpoints/{endpoint.pk}/", payload | {"preset": name}).status_code == 302
    endpoint.refresh_from_db()

    assert policy.preset_of(policy.with_defaults(endpoint.policy)) == name
    assert f"now {name}" in text_of(admin.get(f"/endpoints/{endpoint.pk}/?tab=settings"))


def test_presets_get_stricter_and_the_default_is_one_of_them():
    presets = [actions for _, actions in policy.PRESETS.values()]
    strictness = list(policy.ACTIONS)
    for looser, stricter in itertools.pairwise(presets):
        assert all(
            strictness.index(looser[name]) <= strictness.index(stricter[name]) for name in policy.CLASSES
        )
    assert policy.preset_of(policy.DEFAULT) == "trusting"
