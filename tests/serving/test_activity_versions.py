"""A tool keeps the version of its bound activity, even if the activity is edited."""

import pytest

from catalog.models import Call
from core.errors import DomainError
from designer.environments import environments
from designer.models import NamedActivity
from designer.pins import pins
from designer.releases import publishing
from designer.releases.checks import Check
from designer.upgrades import binding_moves
from execution.activities import operations as activities
from people.models import AuditEntry, Role
from tests.clients import client_of
from tests.factories import make_signature, make_tool, make_user
from tests.pages import text_of
from tests.serving.test_calls import GIVEN, desk, owner, runtime, url, vendor
from tests.serving.test_environments import PLACES, agent_with, definition, designer, elsewhere, place

__all__ = ["designer", "desk", "elsewhere", "owner", "vendor"]
pytestmark = pytest.mark.django_db
AT = f"{PLACES}test/bindings/sky/"
FORECAST = {"arguments": {"place": "Oslo"}}


def answers(sky):
    return {"examples": [{"outputs": {"sky": sky}}]}


def redirect(activity, pin, owner):
    """Have the activity call the vendor's own tool in place of another vendor's."""
    step = {"tool": pin.tool_id, "ordinal": 1, "inputs": {"Zip code": {"input": "Zip code"}}}
    config = {"steps": [step], "outputs": {"Sky now": {"step": 1, "output": "Sky now"}}}
    return activities.change(activity, actor=owner, config=config)


def test_an_edited_activity_runs_only_after_its_binding_has_moved(owner, vendor, desk, elsewhere, designer):
    agent, pin = desk
    place(owner, desk, is_default=True, activity=elsewhere.activity)
    client = runtime(owner, agent)
    assert client.post(url(), GIVEN).json()["outputs"] == {"Sky_now": "rain"}
    assert designer("get", AT).json()["update"] is None

    redirect(elsewhere.activity, pin, owner)
    assert client.post(url(), GIVEN).json()["outputs"] == {"Sky_now": "rain"}
    # Binding the same activity once more moves nothing.
    assert designer("put", AT, {"activity": elsewhere.activity.pk}).json()["activity_version"] == 1
    bound = designer("get", AT).json()
    assert (bound["activity_version"], bound["update"]["activity_version"]) == (1, 2)
    assert (bound["update"]["class"], bound["update"]["refusal"]) == ("notice", "")
    assert bound["update"]["changes"]

    moved = designer("patch", AT, {"activity_version": 2}).json()
    assert (moved["activity_version"], moved["update"]) == (2, None)
    assert client.post(url(), GIVEN).json()["outputs"] == {"Sky_now": "fair"}
    entry = AuditEntry.objects.filter(action="bind").latest("id")
    assert (entry.before["activity_version"], entry.after["activity_version"]) == (1, 2)
    # And back.
    back = designer("put", AT, {"activity": elsewhere.activity.pk, "activity_version": 1}).json()
    assert back["activity_version"] == 1
    assert client.post(url(), GIVEN).json()["outputs"] == {"Sky_now": "rain"}
    numbers = Call.objects.filter(parent=None).order_by("id").values_list("activity__number", flat=True)
    assert list(numbers) == [1, 1, 2, 1]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"activity_version": 7}, "activity_version"),
        ({"activity": None, "activity_version": 1}, "activity_version"),
    ],
)
def test_a_version_that_is_not_there_is_refused(owner, desk, elsewhere, designer, body, field):
    place(owner, desk, activity=elsewhere.activity)
    refused = designer("patch", AT, body)
    assert (refused.status_code, [*refused.json()["fields"]]) == (400, [field])


@pytest.mark.parametrize("explicit", [None, "Weather"])
@pytest.mark.parametrize("in_environment", [True, False])
def test_what_runs_by_its_name_keeps_its_version(owner, designer, explicit, in_environment):
    agent, _ = agent_with(owner, definition(owner, activity=explicit))
    if in_environment:
        environments.create(agent, actor=owner, name="test", is_default=True)
    activity = activities.create(
        actor=owner, name=explicit or "forecast", kind="mock", config=answers("fair")
    )
    client, path = runtime(owner, agent), url(name="forecast")
    assert client.post(path, FORECAST).json()["outputs"] == {"sky": "fair"}
    activities.change(activity, actor=owner, config=answers("storm"))
    assert client.post(path, FORECAST).json()["outputs"] == {"sky": "fair"}
    assert NamedActivity.objects.get().activity_version.number == 1


def test_another_activity_of_the_same_name_does_not_run_at_once(owner):
    agent, _ = agent_with(owner, definition(owner))
    client, path = runtime(owner, agent), url(name="forecast")
    old = activities.create(actor=owner, name="forecast", kind="mock", config=answers("fair"))
    assert client.post(path, FORECAST).json()["outcome"] == "ok"
    activities.change(old, actor=owner, name="The old one")
    activities.create(actor=owner, name="forecast", kind="mock", config=answers("storm"))
    refused = client.post(path, FORECAST)
    assert (refused.status_code, refused.json()["code"]) == (409, "activity_replaced")


def test_a_version_with_steps_runs_the_activities_as_they_were_when_it_was_saved(owner):
    tool = definition(owner, "inner")
    agent, pin = agent_with(owner, definition(owner))
    inner = activities.create(
        actor=owner, name="Inner", kind="mock", config=answers("fair"), interface=tool.current
    )
    steps = {
        "steps": [{"activity": inner.pk, "inputs": {"place": {"input": "place"}}}],
        "outputs": {"sky": {"step": 1, "output": "sky"}},
    }
    outer = activities.create(
        actor=owner, name="Outer", kind="composite", config=steps, interface=pin.version
    )
    environment = environments.create(agent, actor=owner, name="test", is_default=True)
    environments.bind(environment, pin.tool, actor=owner, activity=outer)
    client, path = runtime(owner, agent), url(name="forecast")
    assert client.post(path, FORECAST).json()["outputs"] == {"sky": "fair"}
    activities.change(inner, actor=owner, config=answers("storm"))
    assert client.post(path, FORECAST).json()["outputs"] == {"sky": "fair"}
    # Saving the outer one again records the newer version, which runs once the binding moves.
    outer = activities.change(outer, actor=owner, config=steps)
    assert outer.current.number == 2
    assert client.post(path, FORECAST).json()["outputs"] == {"sky": "fair"}
    environments.bind(environment, pin.tool, actor=owner, activity=outer, version=outer.current)
    assert client.post(path, FORECAST).json()["outputs"] == {"sky": "storm"}
    assert activities.change(outer, actor=owner, config=steps).current.number == 2


def test_only_a_second_person_or_an_administrator_moves_a_protected_binding(
    owner, vendor, desk, elsewhere, designer
):
    pin = desk[1]
    environment = place(owner, desk, activity=elsewhere.activity)
    protected = designer("patch", f"{PLACES}test/", {"is_protected": True}).json()
    assert protected["is_protected"] is True
    edited = redirect(elsewhere.activity, pin, owner)
    for method, path, body in (
        ("patch", AT, {"activity_version": 2}),
        ("put", AT, {"activity": None}),
        ("delete", AT, None),
        ("patch", f"{PLACES}test/", {"is_protected": False}),
        ("patch", f"{PLACES}test/", {"is_default": True}),
        ("delete", f"{PLACES}test/", None),
    ):
        refused = designer(method, path, body)
        assert (refused.status_code, refused.json()["code"]) == (403, "environment_protected")
    environment.refresh_from_db()
    other = make_user(Role.DESIGNER)
    moved = environments.bind(environment, pin.tool, actor=other, activity=edited, version=edited.current)
    assert moved.activity_version.number == 2
    assert not environments.protect(environment, actor=make_user(Role.ADMIN), is_protected=False).is_protected


def test_a_release_records_what_ran_and_check_fails_when_that_differs(
    owner, vendor, desk, elsewhere, designer, client
):
    agent, pin = desk
    place(owner, desk, is_default=True, activity=elsewhere.activity)
    pins.pin_tool(agent, actor=owner, tool=make_tool(make_signature(name="More")))
    release = publishing.publish(agent, actor=owner, channel="live")
    lock = designer("get", "/api/v1/agents/desk/releases/live/lock/").json()
    assert (lock["environment"], [row["tool"] for row in lock["bindings"]]) == ("test", ["sky"])
    runtime(owner, agent).post(url(), GIVEN)
    receipt = designer("get", "/api/v1/agents/desk/receipts/").json()["results"][0]
    recorded = [(row["tool"], row["activity"], row["activity_version"]) for row in receipt["activities"]]
    assert (receipt["release"], recorded) == (release.number, [("sky", elsewhere.activity.pk, 1)])
    client.force_login(owner)
    page = client.get(f"/agents/desk/releases/{release.number}/").content.decode()
    assert f'href="/activities/{elsewhere.activity.pk}/"' in page
    check = "/api/v1/agents/desk/check/"
    assert designer("post", check, lock).json()["status"] == "current"
    with pytest.raises(DomainError, match="Nothing has changed"):
        publishing.publish(agent, actor=owner)

    edited = redirect(elsewhere.activity, pin, owner)
    assert designer("post", check, lock).json()["status"] == "current"
    assert designer("patch", AT, {"activity_version": edited.current.number}).status_code == 200
    check_result = designer("post", check, lock).json()
    assert (check_result["status"], [row["code"] for row in check_result["changes"]]) == (
        "breaking",
        ["binding_changed"],
    )
    following = publishing.publish(agent, actor=owner, channel="live")
    diff = designer("get", f"/api/v1/agents/desk/releases/{following.number}/diff/").json()
    assert [row["tool"] for row in diff["bindings"]] == ["sky"]
    assert (diff["against"], diff["tools"]) == (release.number, [])


def test_updates_list_an_edited_activity_and_move_it_and_back(owner, vendor, desk, elsewhere, client):
    pin = desk[1]
    environment = place(owner, desk, is_default=True, activity=elsewhere.activity)
    client.force_login(owner)
    page = "/agents/desk/upgrades/"
    first = elsewhere.activity.current
    edited = redirect(elsewhere.activity, pin, owner).current
    assert f'name="version" value="{edited.pk}"' in client.get(page).content.decode()
    payload = {"pin": pin.pk, "environment": "test", "version": edited.pk, "from": first.pk}
    answer = client.post(f"{page}activities/", payload, follow=True)
    assert environments.bindings_of(environment)[0].activity_version == edited
    assert f'name="version" value="{first.pk}"' in answer.content.decode()
    client.post(f"{page}activities/", payload | {"version": first.pk, "from": ""})
    assert environments.bindings_of(environment)[0].activity_version == first


@pytest.fixture
def mailer(owner):
    """An agent whose only tool is defined here and bound in the default environment."""
    agent, pin = agent_with(owner, definition(owner))
    activity = activities.create(
        actor=owner, name="Weather station", kind="mock", config=answers("fair"), interface=pin.version
    )
    environment = environments.create(agent, actor=owner, name="test", is_default=True)
    environments.bind(environment, pin.tool, actor=owner, activity=activity)
    return agent, pin, environment


def test_removing_a_binding_of_a_default_or_protected_environment_needs_a_reason(mailer, designer, owner):
    agent, pin, environment = mailer
    path = f"/api/v1/agents/{agent.slug}/environments/test/bindings/forecast/"
    refused = designer("delete", path)
    failed = [check["code"] for check in refused.json()["checks"] if check["severity"] == "error"]
    assert (refused.status_code, failed) == (409, ["not_connected"])
    assert environment.bindings.exists()
    unexplained = designer("delete", f"{path}?accept=not_connected")
    assert (unexplained.status_code, [*unexplained.json()["fields"]]) == (400, ["reason"])
    assert designer("delete", f"{path}?accept=not_connected&reason=For+a+day").status_code == 204
    assert AuditEntry.objects.filter(action="unbind").get().why == "For a day"

    # Another one is for trying out, until it is protected.
    other = environments.create(agent, actor=owner, name="other")
    activity = activities.create(
        actor=owner, name="Another station", kind="mock", config=answers("fair"), interface=pin.version
    )
    for is_protected, status in ((False, 204), (True, 409)):
        environments.bind(other, pin.tool, actor=owner, activity=activity)
        environments.protect(other, actor=owner, is_protected=is_protected)
        client = client_of(make_user(Role.ADMIN))
        assert client.delete(path.replace("/test/", "/other/")).status_code == status


def test_another_default_environment_needs_a_reason_if_a_tool_does_not_run_there(
    mailer, designer, client, owner
):
    agent, _, environment = mailer
    path = f"/api/v1/agents/{agent.slug}/environments/"
    # Nothing is bound in a new environment.
    refused = designer("post", path, {"name": "other", "is_default": True})
    assert (refused.status_code, refused.json()["code"]) == (409, "checks_failed")
    assert not agent.environments.filter(name="other").exists()
    assert designer("post", path, {"name": "other"}).status_code == 201
    for name, is_default in (("other", True), ("test", False)):
        refused = designer("patch", f"{path}{name}/", {"is_default": is_default})
        failed = [check["code"] for check in refused.json()["checks"] if check["severity"] == "error"]
        assert (refused.status_code, failed) == (409, ["not_connected"])
    environment.refresh_from_db()
    assert environment.is_default

    # The page offers to give the reason.
    client.force_login(owner)
    page = f"/agents/{agent.slug}/environments/"
    answer = client.post(f"{page}other/default/", follow=True)
    assert (answer.context["refused_default"].name, answer.context["default_codes"]) == (
        "other",
        ["not_connected"],
    )
    accepted = {"accept": "not_connected", "reason": "For a day"}
    client.post(f"{page}other/default/", accepted)
    environment.refresh_from_db()
    assert not environment.is_default
    assert AuditEntry.objects.filter(action="edit", why="For a day").count() == 2
    # An activity that fails in both is not stopped, and moving back has nothing to accept.
    assert designer("patch", f"{path}other/", {"is_default": False}).status_code == 200
    assert designer("patch", f"{path}test/", {"is_default": True}).status_code == 200


def test_the_page_asks_for_the_reason_of_such_a_change(mailer, client, owner):
    agent, pin, environment = mailer
    client.force_login(owner)
    page, cell = f"/agents/{agent.slug}/environments/", f"{pin.pk}-{environment.pk}"
    bound = str(environment.bindings.get().activity_id)
    payload = {cell: "", f"was-{cell}": bound}
    refused = client.post(page, payload)
    assert (refused.status_code, refused.context["codes"]) == (409, ["not_connected"])
    assert 'name="reason"' in refused.content.decode()
    assert client.post(page, payload | {"accept": "not_connected", "reason": "For a day"}).status_code == 302
    assert not environment.bindings.exists()


def test_what_runs_by_its_name_is_moved_and_moved_back(owner, designer, client):
    agent, pin = agent_with(owner, definition(owner))
    environments.create(agent, actor=owner, name="test", is_default=True)
    activity = activities.create(actor=owner, name="forecast", kind="mock", config=answers("fair"))
    calls, path = runtime(owner, agent), url(name="forecast")
    activity_path = f"/api/v1/agents/{agent.slug}/named-activities/forecast/"
    assert calls.post(path, FORECAST).json()["outputs"] == {"sky": "fair"}
    edited = activities.change(activity, actor=owner, config=answers("storm")).current
    assert designer("get", activity_path).json()["update"]["activity_version"] == 2
    assert designer("patch", activity_path, {"activity_version": 7}).status_code == 400
    assert designer("patch", activity_path, {}).json()["activity_version"] == 2
    assert calls.post(path, FORECAST).json()["outputs"] == {"sky": "storm"}
    assert designer("patch", activity_path, {"activity_version": 1}).json()["activity_version"] == 1
    assert calls.post(path, FORECAST).json()["outputs"] == {"sky": "fair"}
    # The same on the page.
    client.force_login(owner)
    first = NamedActivity.objects.get().activity_version
    moves = f"/agents/{agent.slug}/upgrades/activities/"
    payload = {"pin": pin.pk, "environment": "", "version": edited.pk, "from": first.pk}
    moved = client.post(moves, payload, follow=True)
    assert NamedActivity.objects.get().activity_version == edited
    assert f'name="version" value="{first.pk}"' in moved.content.decode()
    client.post(moves, payload | {"version": first.pk, "from": ""})
    assert NamedActivity.objects.get().activity_version == first
    # Another activity that gets the name is chosen by the same call.
    activities.change(activity, actor=owner, name="The old one")
    activities.create(actor=owner, name="forecast", kind="mock", config=answers("hail"))
    replaced = designer("get", activity_path).json()
    assert (replaced["code"], replaced["update"]["activity_version"]) == ("activity_replaced", 1)
    assert designer("patch", activity_path, {}).status_code == 200
    assert calls.post(path, FORECAST).json()["outputs"] == {"sky": "hail"}
    assert designer("get", activity_path).json()["update"] is None


def test_a_refused_move_is_repeated_with_a_reason_under_updates(mailer, owner, client, monkeypatch):
    agent, pin, environment = mailer
    activity = environment.bindings.get().activity
    first = activity.current
    edited = activities.change(activity, actor=owner, config=answers("storm")).current
    failed = Check(code="not_connected", severity="error", message="Nothing is connected.")
    monkeypatch.setattr(binding_moves, "_read_checks", lambda *args: [failed])
    client.force_login(owner)
    moves = f"/agents/{agent.slug}/upgrades/activities/"
    move = {"pin": pin.pk, "environment": environment.name, "version": edited.pk, "from": first.pk}

    refused = client.post(moves, move, follow=True)

    assert refused.context["refused_move"]["codes"] == ["not_connected"]
    assert 'name="reason"' in refused.content.decode()
    accepted = move | {"accept": "not_connected"}
    unexplained = client.post(moves, accepted, follow=True)
    assert unexplained.context["refused_move"]["version"] == edited
    assert environment.bindings.get().activity_version == first
    moved = client.post(moves, accepted | {"reason": "The station moves"}, follow=True)
    assert moved.context["refused_move"] is None
    assert environment.bindings.get().activity_version == edited
    assert AuditEntry.objects.latest("pk").why == "The station moves"


def test_updates_list_a_tool_whose_activity_lost_its_name(owner, client):
    agent, pin = agent_with(owner, definition(owner))
    old = activities.create(actor=owner, name="forecast", kind="mock", config=answers("fair"))
    calls = runtime(owner, agent)
    assert calls.post(url(name="forecast"), FORECAST).json()["outcome"] == "ok"
    activities.change(old, actor=owner, name="The old one")
    client.force_login(owner)
    page = f"/agents/{agent.slug}/upgrades/"
    assert client.get(page).context["activity_updates"] == []
    new = activities.create(actor=owner, name="forecast", kind="mock", config=answers("hail"))
    answer = client.get(page)
    (update,) = answer.context["activity_updates"]
    assert (update.version, update.change.class_, update.refusal) == (new.current, "notice", "")
    assert f'name="version" value="{new.current.pk}"' in answer.content.decode()
    moved = {"pin": pin.pk, "environment": "", "version": new.current.pk, "from": ""}
    client.post(f"{page}activities/", moved)
    assert client.get(page).context["activity_updates"] == []
    assert calls.post(url(name="forecast"), FORECAST).json()["outputs"] == {"sky": "hail"}


@pytest.mark.parametrize("by_name", [True, False])
def test_an_activity_of_a_protected_environment_is_removed_by_an_administrator_only(owner, by_name):
    agent, pin = agent_with(owner, definition(owner))
    environment = environments.create(agent, actor=owner, name="test", is_default=True)
    activity = activities.create(actor=owner, name="forecast", kind="mock", config=answers("fair"))
    if by_name:
        assert runtime(owner, agent).post(url(name="forecast"), FORECAST).json()["outcome"] == "ok"
    else:
        environments.bind(environment, pin.tool, actor=owner, activity=activity)
    environments.protect(environment, actor=owner)
    client = client_of(make_user(Role.DESIGNER))
    refused = client.delete(f"/api/v1/activities/{activity.pk}/")
    assert (refused.status_code, refused.json()["code"]) == (403, "environment_protected")
    assert client_of(make_user(Role.ADMIN)).delete(f"/api/v1/activities/{activity.pk}/").status_code == 204


def test_an_activity_that_runs_by_name_in_a_protected_environment_keeps_its_name(owner):
    agent, _ = agent_with(owner, definition(owner))
    environment = environments.create(agent, actor=owner, name="test", is_default=True)
    activity = activities.create(actor=owner, name="forecast", kind="mock", config=answers("fair"))
    assert runtime(owner, agent).post(url(name="forecast"), FORECAST).json()["outcome"] == "ok"
    environments.protect(environment, actor=owner)
    path, client = f"/api/v1/activities/{activity.pk}/", client_of(make_user(Role.DESIGNER))
    refused = client.patch(path, {"name": "Another name"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "environment_protected")
    # A binding does not depend on the name.
    other = activities.create(actor=owner, name="Bound", kind="mock", config=answers("fair"))
    environments.bind(environment, agent.pins.get().tool, actor=make_user(Role.ADMIN), activity=other)
    renamed = client.patch(f"/api/v1/activities/{other.pk}/", {"name": "Renamed"}, format="json")
    assert renamed.status_code == 200
    admin = client_of(make_user(Role.ADMIN))
    assert admin.patch(path, {"name": "Another name"}, format="json").status_code == 200


def test_pages_tell_which_version_runs_and_that_it_differs_from_the_release(
    owner, vendor, desk, elsewhere, client
):
    agent, pin = desk
    environment = place(owner, desk, is_default=True, activity=elsewhere.activity)
    client.force_login(owner)
    publishing.publish(agent, actor=owner, channel="live")
    (row,) = client.get("/agents/desk/environments/").context["rows"]
    assert row.cells[0].version.number == 1
    number = agent.releases.count()
    described = f"{elsewhere.activity}, version 1"
    assert described in text_of(client.get(f"/agents/desk/releases/{number}/"))
    assert client.get("/agents/desk/changes/").context["summary"].bindings == []
    assert not client.get("/agents/desk/publish/").context["review"].is_new

    edited = redirect(elsewhere.activity, pin, owner).current
    environments.bind(environment, pin.tool, actor=owner, activity=elsewhere.activity, version=edited)
    (change,) = client.get("/agents/desk/changes/").context["summary"].bindings
    assert (change.tool, change.after["activity_version"]) == ("sky", 2)
    page = client.get("/agents/desk/publish/")
    assert page.context["review"].is_new
    assert change.message in text_of(page)

    assert client.post("/agents/desk/environments/test/protect/").status_code == 302
    assert client.get("/agents/desk/environments/").context["places"][0].is_protected
