"""An agent leaves as a file and comes back in: over REST and on the page."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.models import Endpoint, Tool
from catalog.models.tools import ToolStatus
from catalog.tools import definitions
from core.canonical_json import canonical
from core.errors import DomainError
from designer.agents import agent_budgets, agents, transfers
from designer.files import agent_files
from designer.models import Agent, Pin, Procedure, Release, Transfer
from designer.models.pins import PinMode
from designer.pins import pins, tunings
from designer.procedures import editing
from designer.releases import composition
from people.models import AuditEntry, Role, Team
from protocols.definition import parts_of
from tests.clients import client_of
from tests.clients import signed_in as api_of
from tests.factories import make_agent, make_parameter, make_signature, make_tool, make_user
from tests.module_data import module_data
from tests.pages import signed_in, text_of
from tests.protocols.test_definition import SEND

URL = "/api/v1/agents/import/"
PAGE = "/agents/import/"


@module_data
def actor():
    return make_user(Role.DESIGNER)


@module_data
def desk(actor):
    """Two tools, one of them renamed and tuned, and a sub-agent with a transfer in words of its own."""
    desk = make_agent(slug="desk", name="Desk", description="Answers the phone.")
    city = make_parameter("city")
    first = make_tool(make_signature("look_up", inputs=(city,)))
    second = make_tool(make_signature("book", inputs=(city,)))
    tunings.tune(second, actor=actor, description="Books a table, for all agents.")
    pins.pin_tool(desk, actor=actor, tool=first)
    pin = pins.pin_tool(desk, actor=actor, tool=second, alias="reserve")
    tunings.tune(pin, actor=actor, parameters={"city": {"description": "Where.", "preset": "Oslo"}})
    bills = agents.create_agent(actor=actor, name="Bills", slug="bills", parent=desk)
    transfers.word_transfer(
        Transfer.objects.get(child=bills), actor=actor, name="to_bills", description="For money."
    )
    pins.pin_tool(bills, actor=actor, tool=first)
    editing.create_procedure(
        desk, actor=actor, title="Table", body="Ask for {city}, use reserve(city), else to_bills()."
    )
    editing.create_procedure(bills, actor=actor, title="Bill", body="Call look_up().")
    agent_budgets.set_limit(desk, actor=actor, limit=9_000, stops=True)
    pins.set_retry(pin, actor=actor, changes={"retry": "none"})
    pins.set_mode(pin, actor=actor, mode=PinMode.FRESH)
    agents.update_agent(desk, actor=actor, retry={"attempts": 5, "give_up_after_seconds": 60})
    return desk


@module_data
def file(alice, desk):
    return client_of(alice).get("/api/v1/agents/desk/file/").json()


def test_a_file_makes_the_same_agents_again(api, actor, desk, file):
    before = composition.draft(desk)

    done = api.post(URL, {"file": file})

    assert (done.status_code, done.json()["missing"]) == (201, [])
    assert (done.json()["pins"], done.json()["procedures"]) == (3, 2)
    slug, below = done.json()["agents"]
    agent = Agent.objects.get(slug=slug)
    after = composition.draft(agent)
    assert [tool.signature for tool in after.tools] == [tool.signature for tool in before.tools]
    assert [procedure.text for procedure in after.procedures] == [
        procedure.text for procedure in before.procedures
    ]
    assert [procedure.references for procedure in after.procedures] == [
        procedure.references for procedure in before.procedures
    ]
    assert Agent.objects.get(slug=below).parent == agent
    transfer = Transfer.objects.get(child__slug=below)
    assert (transfer.name, transfer.description) == ("to_bills", "For money.")
    assert AuditEntry.objects.filter(action="create", object_id=str(agent.pk), kind="agent").exists()
    assert not Release.objects.exists()
    again = api.get(f"/api/v1/agents/{slug}/file/").json()
    assert again["agents"][0]["pins"] == file["agents"][0]["pins"]
    assert again["agents"][0]["procedures"] == file["agents"][0]["procedures"]
    assert again["agents"][0]["retry"] == {"attempts": 5, "give_up_after_seconds": 60}
    assert {pin["name"]: pin["retry"] for pin in file["agents"][0]["pins"]} == {
        "look_up": {},
        "reserve": {"retry": "none"},
    }
    assert {pin["name"]: pin["mode"] for pin in file["agents"][0]["pins"]} == {
        "look_up": "cached",
        "reserve": "fresh",
    }
    limits = [agent["token_limit"] for agent in again["agents"]]
    assert limits == [{"tokens": 9_000, "stops": True}, None]


def test_an_agent_that_is_gone_comes_back_at_its_address(api, actor, desk, file):
    for slug in ("bills", "desk"):
        agents.remove_agent(Agent.objects.live().get(slug=slug), actor=actor)

    assert api.post(URL, {"file": file}).json()["agents"] == ["desk", "bills"]


def rows():
    return [model.objects.count() for model in (Agent, Pin, Procedure, Transfer, AuditEntry)]


def test_a_dry_run_writes_nothing_and_says_the_same(api, file):
    before = rows()

    response = api.post(URL, {"file": file, "dry_run": True})

    assert (response.status_code, response.json()["pins"], rows()) == (200, 3, before)
    assert len(response.json()["agents"]) == 2


def test_what_is_missing_is_listed_before_anything_is_written(api, actor, file):
    here, second_pin, odd = (
        file["agents"][0]["pins"][0],
        file["agents"][0]["pins"][1],
        file["agents"][1]["pins"][0],
    )
    here["endpoint"] = "https://elsewhere.example/"
    second_pin["digest"], second_pin["tuning"] = "0" * 64, {"parameters": {"no_such": {"description": "?"}}}
    odd["tool_id"] = "no-such-tool"
    before = rows()

    result = api.post(URL, {"file": file, "dry_run": True}).json()
    refused = api.post(URL, {"file": file})

    missing = [(row["agent"], row["name"], row["code"]) for row in result["missing"]]
    assert sorted(missing) == sorted(
        [
            ("desk", here["name"], "endpoint_missing"),
            ("desk", second_pin["name"], "version_missing"),
            ("desk", second_pin["name"], "words_refused"),
            ("bills", odd["name"], "tool_missing"),
        ]
    )
    assert (refused.status_code, refused.json()["code"]) == (409, "import_incomplete")
    assert "And 1 more. Nothing was imported." in refused.json()["message"]
    assert rows() == before

    done = api.post(URL, {"file": file, "accept_missing": True})
    assert (done.status_code, done.json()["pins"]) == (201, 1)
    assert done.json()["missing"] == result["missing"]


def test_a_withdrawn_tool_is_refused_by_its_name(api, file):
    Tool.objects.filter(name="look_up").update(status=ToolStatus.WITHDRAWN)

    body = api.post(URL, {"file": file, "dry_run": True}).json()

    assert {row["code"] for row in body["missing"]} == {"tool_refused"}


def test_of_two_vendors_at_one_address_the_one_of_the_same_name_is_meant(api, file):
    entry = file["agents"][0]["pins"][0]
    twin = make_tool(make_signature("look_up"))
    Endpoint.objects.filter(pk=twin.endpoint_id).update(url=entry["endpoint"], protocol=entry["protocol"])
    Tool.objects.filter(pk=twin.pk).update(tool_id=entry["tool_id"])

    slug = api.post(URL, {"file": file, "accept_missing": True}).json()["agents"][0]

    pinned = Pin.objects.get(agent__slug=slug, name=entry["name"])
    assert pinned.tool.endpoint.vendor.slug == entry["vendor"]


@pytest.mark.parametrize(
    ("change", "expected_text"),
    [
        (lambda file: file.pop("agents"), "agents"),
        (lambda file: file.update(schema="other/9"), "other/9"),
        (lambda file: file.update(agents=[]), "length >= 1"),
        (lambda file: file["agents"][0].update(more=1), "more"),
        (lambda file: file["agents"][0].update(name=3), "agents[0].name"),
        (lambda file: file["agents"][0].update(parent="desk"), "does not fit into the file's tree"),
        (lambda file: file["agents"][1].update(parent="nobody"), "does not fit into the file's tree"),
        (lambda file: file["agents"][1].update(slug="desk"), "does not fit into the file's tree"),
        (lambda file: file["agents"].append(file["agents"][1]), "does not fit into the file's tree"),
        (lambda file: file["agents"][0]["pins"][0].update(tuning=[]), "tuning"),
        (lambda file: file["agents"][0].update(name=""), ""),
        (lambda file: file["agents"][0]["procedures"][0].update(body="x" * 70_000), "body"),
        (lambda file: file["agents"][0]["procedures"][0].update(slug="Not a slug"), ""),
        (lambda file: file["agents"][1].update(transfer={"name": "not legal!"}), ""),
    ],
)
def test_what_is_no_file_of_an_agent_says_where(api, file, change, expected_text):
    change(file)
    before = rows()

    answer = api.post(URL, {"file": file})

    assert answer.status_code == 400, answer.json()
    assert expected_text in answer.json()["message"]
    assert rows() == before


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    document=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["schema", "agents", "pins"]), inner),
    )
)
def test_any_json_is_read_or_refused(document):
    with pytest.raises(DomainError):
        agent_files.read_file(json.dumps(document).encode())


def test_a_file_goes_to_a_team_of_ones_own_only(file, db):
    stranger = Team.objects.create(name="Other", slug="other")
    answer = api_of(Role.DESIGNER).post(URL, {"file": file, "team": stranger.slug}, format="json")
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["team"])


def test_agent_cannot_take_the_address_of_the_import(api, db):
    assert api.post("/api/v1/agents/", {"name": "Import"}).json()["slug"] == "import-2"
    assert api.post("/api/v1/agents/", {"name": "X", "slug": "import"}).json()["code"] == "slug_taken"


def upload(browser, file, **more):
    body = file if isinstance(file, bytes) else json.dumps(file).encode()
    return browser.post(PAGE, {"file": SimpleUploadedFile("desk.agent.json", body), "act": "check"} | more)


def test_page_shows_what_is_missing_and_imports_on_the_second_press(file):
    file["agents"][0]["pins"][0]["endpoint"] = "https://elsewhere.example/<b>"
    browser = signed_in(Role.DESIGNER)
    count = Agent.objects.count()

    page = upload(browser, file)

    assert "2 agents with 2 tools and 2 procedures: Desk, Bills." in text_of(page)
    assert "which no vendor here has" in text_of(page)
    assert "https://elsewhere.example/<b>" not in page.content.decode()
    assert Agent.objects.count() == count
    payload = {"text": page.context["text"], "act": "import"}
    assert "import" in text_of(browser.post(PAGE, payload)).lower()
    assert Agent.objects.count() == count
    done = browser.post(PAGE, payload | {"accept_missing": "on"}, follow=True)
    assert done.context["agent"].name == "Desk"
    assert Agent.objects.count() == count + 2


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        (b"", "empty"),
        (b"\xff\xfe", "not the file of an agent"),
        (b"[" * 5_000, "not the file of an agent"),
        (b"{}", "not the file of an agent"),
        (b'{"schema": "\\u0000"}', "NUL"),
        (b" " * 950_000, "at most 900,000 are allowed"),
    ],
)
def test_page_says_what_is_wrong_with_a_file(db, body, expected_text):
    page = upload(signed_in(Role.DESIGNER), body)
    assert page.status_code == 200
    assert expected_text in text_of(page)
    assert not Agent.objects.exists()


def test_page_asks_for_a_file(db):
    assert "Choose a file." in text_of(signed_in(Role.DESIGNER).post(PAGE, {"act": "check"}))


def test_page_of_an_agent_gives_the_file_out(desk, actor):
    browser = signed_in(Role.DESIGNER)
    assert "/api/v1/agents/desk/file/" in browser.get("/agents/desk/edit/").content.decode()
    answer = browser.get("/api/v1/agents/desk/file/")
    assert answer["Content-Disposition"] == 'attachment; filename="desk.agent.json"'


def test_definitions_go_along_with_the_agents_that_pin_them(actor):
    desk = make_agent(slug="desk", name="Desk")
    definition = definitions.define(actor=actor, parts=parts_of(SEND))
    pins.pin_tool(desk, actor=actor, tool=definition)
    file = agent_files.write_file(desk)
    assert canonical(file["agents"][0]["pins"][0]["definition"]) == canonical(SEND)
    back = agent_files.import_file(agent_files.parse_file(file), actor=actor, is_dry_run=False)
    assert (back.missing, back.agents["desk"].pins.get().tool) == ([], definition)

    # Another installation has no such id: a definition of the same name replaces it, or a new one is created.
    file["agents"][0]["pins"][0]["tool_id"] = "of another installation"
    again = agent_files.import_file(agent_files.parse_file(file), actor=actor, is_dry_run=False)
    assert (again.missing, again.agents["desk"].pins.get().tool) == ([], definition)
    definitions.withdraw(definition, actor=actor)
    new = agent_files.import_file(agent_files.parse_file(file), actor=actor, is_dry_run=False)
    new_definition = new.agents["desk"].pins.get().tool
    assert (new.missing, new_definition.name, new_definition == definition) == ([], "sendEmail", False)

    definitions.withdraw(new_definition, actor=actor)
    del file["agents"][0]["pins"][0]["definition"]
    lacking = agent_files.import_file(
        agent_files.parse_file(file), actor=actor, is_dry_run=False, accept_missing=True
    )
    assert [item.code for item in lacking.missing] == ["tool_missing"]
