"""The format `skill`: one SKILL.md for each procedure, by the public rules of Agent Skills."""

import io
import re
import zipfile

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from designer.exports import skill
from designer.exports.base import carried
from designer.exports.document import ReleasedProcedure, ReleasedReference
from designer.procedures import editing
from designer.procedures.template import TEMPLATE
from people.models import Role
from tests.designer.exports.test_exports import make_release
from tests.factories import make_agent, make_pin, make_signature, make_tool, make_user

URL = "/api/v1/agents/desk/releases/"
NAME = re.compile("[a-z0-9]+(-[a-z0-9]+)*")
ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3_000)
BODY = "## Goal\n\nThe customer\nhas a refill.\n\n"
BODY += "## When to follow this\n\nWhen one asks: “refill”.\n\n1. Use look_up().\n"


def procedure(slug="refill", title="Refill", text=BODY, references=()):
    return ReleasedProcedure(slug=slug, title=title, text=text, references=tuple(references))


def release_of(*procedures, tools=()):
    return msgspec.structs.replace(make_release(*tools), procedures=procedures)


def unpacked(body):
    """The front matter and the rest of each SKILL.md, by folder, held against the rules for both."""
    skills = {}
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        assert archive.testzip() is None
        for path in archive.namelist():
            folder, file = path.split("/")
            assert file == "SKILL.md"
            start, matter, text = re.split(r"^---\n", archive.read(path).decode(), maxsplit=2, flags=re.M)
            front_matter = yaml.safe_load(matter)
            assert start == ""
            assert front_matter.keys() == {"name", "description"}
            assert front_matter["name"] == folder
            assert NAME.fullmatch(folder)
            assert len(folder) <= 64
            assert isinstance(front_matter["description"], str)
            assert 1 <= len(front_matter["description"]) <= 1024
            assert not set("<>\n") & set(front_matter["description"])
            skills[folder] = front_matter, text
    return skills


def test_skill_says_what_it_is_for_and_names_its_tools():
    names = (
        ReleasedReference(line=9, kind="tool", name="tool_1"),
        ReleasedReference(line=9, kind="input", name="tool_1", member="city"),
        ReleasedReference(line=9, kind="agent", name="transfer_to_billing"),
        ReleasedReference(line=9, kind="item", member="account_id"),
    )
    tools = (make_signature(description="Looks up.\n\n## Not a heading"), make_signature())

    skills = unpacked(skill.write(release_of(procedure(references=names), tools=tools)))

    matter, text = skills["refill"]
    assert matter["description"] == (
        "Refill. The customer has a refill. When to use it: When one asks: “refill”."
    )
    assert text == (
        f"\n# Refill\n\n{BODY.strip()}\n\n## Tools\n\n- `tool_1`: Looks up. ## Not a heading\n"
        "- `transfer_to_billing`: hands over to another agent\n"
    )


@pytest.mark.parametrize("text", ["", TEMPLATE, "Only a sentence.", "# Heading\n\n## Another", "x" * 60_000])
def test_any_text_makes_a_description(text):
    unpacked(skill.write(release_of(procedure(text=text))))


@given(title=ANY_TEXT, text=ANY_TEXT, goal=ANY_TEXT)
def test_front_matter_is_yaml_whatever_is_written(title, text, goal):
    unpacked(skill.write(release_of(procedure(title=title, text=f"{text}\n## Goal\n{goal}"))))


@pytest.mark.parametrize(
    ("slug", "name"),
    [
        ("claude-intake-1", "intake-1"),
        ("intake-for-anthropic", "intake-for"),
        ("myclaudetool", "mytool"),
        ("clclaudeaude-x", "x"),
        ("Claude", "procedure"),
        ("anthropic-claude", "procedure"),
    ],
)
def test_words_that_a_provider_reserves_are_in_no_name(slug, name):
    assert list(unpacked(skill.write(release_of(procedure(slug=slug))))) == [name]


@given(slugs=st.lists(st.from_regex("[a-z0-9-]{1,60}", fullmatch=True), min_size=1, max_size=6, unique=True))
def test_every_procedure_has_a_folder_of_its_own(slugs):
    assert len(unpacked(skill.write(release_of(*map(procedure, slugs))))) == len(slugs)


def test_order_and_clock_change_no_byte(monkeypatch):
    one, two = procedure("a-one"), procedure("two")
    before = skill.write(release_of(one, two))

    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)

    assert skill.write(release_of(two, one)) == before


def test_release_without_procedures_has_nothing_to_carry():
    carried_release = carried(make_release(make_signature()), skill.LIMITS)
    assert (carried_release.is_any, carried_release.left_out) == (False, [])
    assert carried(release_of(procedure()), skill.LIMITS).remarks == []


@pytest.fixture
def desk(db):
    return make_agent(slug="desk", name="Desk")


def test_runtime_fetches_skills_of_an_agent_without_tools(api, desk):
    editing.create_procedure(desk, actor=make_user(Role.DESIGNER), title="Greet", body="Say good morning.")
    digest = api.post(URL).json()["digest"]

    answer = api.get(f"{URL}1/tools/", {"format": "skill"})

    assert (answer.status_code, answer["Content-Type"]) == (200, "application/zip")
    assert answer["ETag"] == f'"{digest}"'
    assert answer["Content-Disposition"] == 'attachment; filename="desk-1.skill.zip"'
    assert list(unpacked(answer.content)) == ["greet"]
    assert 'download="desk-1.skill.zip"' in api.get("/agents/desk/releases/1/").content.decode()


def test_release_without_procedures_says_what_to_do(api, desk):
    make_pin(agent=desk, tool=make_tool(make_signature("look_up")))
    digest = api.post(URL).json()["digest"]
    partial_query = {"format": "skill", "partial": "1"}

    for query in ({"format": "skill"}, partial_query):
        answer = api.get(f"{URL}1/tools/", query, headers={"If-None-Match": f'"{digest}"'})
        assert (answer.status_code, answer.json()["code"]) == (409, "format_cannot_carry")
        assert answer.json()["message"] == (
            "This release has no procedures, and the format contains nothing else. Write one, then publish."
        )
    page = api.get("/agents/desk/releases/1/").content.decode()
    assert "This release has no procedures" in page
    assert "desk-1.skill.zip" not in page
    messages = [check["message"] for check in api.get("/api/v1/agents/desk/draft/").json()["checks"]]
    assert not [message for message in messages if "Skills" in message]
