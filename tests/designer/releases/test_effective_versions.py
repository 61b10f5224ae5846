"""Versions of tools for clients that know versions: each fixed, each only adding."""

from contextlib import contextmanager

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from catalog.rules import diff
from designer.agents import agents
from designer.exports import a2t, document, oxp
from designer.exports.document import ReleasedAgent, ReleaseDocument, ReleasedTool, ReleasedVersion
from designer.models import EffectiveVersion, Release, Retirement
from designer.pins import pins, tunings
from designer.releases import composition, draft_review, effective_versions, numbering, publishing
from designer.signatures.effective import effective
from protocols.signature import AllowedValue
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool, make_version

pytestmark = pytest.mark.django_db
ID = "9d7f0d6e-1f4e-4a57-8f0a-5b2a0c6c7e11"


@pytest.fixture
def desk(db):
    return make_agent(slug="desk", name="Desk")


@pytest.fixture
def sky(desk):
    return make_pin(desk, make_tool(make_signature("sky"), tool_id=ID))


def publish(agent, actor) -> Release:
    return publishing.publish(agent, actor=actor)


def numbers(agent) -> list[tuple[int, str, int]]:
    """The release, version and number of each row."""
    rows = EffectiveVersion.objects.filter(agent=agent).order_by("pk")
    return [(row.release.number, row.semver, row.number) for row in rows]


def move(pin, signature, actor, label="2"):
    make_version(pin.tool, signature, label=label)
    pins.move_pin(pin, actor=actor, version=label)


def forget_numbers():
    """Delete the versions, as after an upgrade from a Pegboard without them."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM designer_effectiveversion")
        cursor.execute("SET LOCAL session_replication_role = origin")


@contextmanager
def documents_read():
    """Return the text of each query that reads documents of releases."""
    statements: list[str] = []
    with CaptureQueriesContext(connection) as queries:
        yield statements
    statements += [query["sql"] for query in queries if '"designer_release"."document"' in query["sql"]]


def test_every_change_of_words_is_another_version_even_a_way_back(alice, desk, sky):
    publish(desk, alice)
    for words in ("Looks up.", "Looks down.", None):
        tunings.tune(sky, actor=alice, description=words)
        publish(desk, alice)

    assert numbers(desk) == [(1, "1.0.0", 1), (2, "1.0.1", 2), (3, "1.0.2", 3), (4, "1.0.3", 4)]
    rows = EffectiveVersion.objects.all()
    assert {str(row.uuid) for row in rows} == {ID}
    assert rows[0].digest == rows[3].digest


def test_what_only_adds_is_a_minor_version_and_what_is_unchanged_is_none(alice, desk, sky):
    publish(desk, alice)
    other = make_pin(desk, make_tool(make_signature("mail")))
    more = make_signature("sky", inputs=(make_parameter(), make_parameter("days", required=False)))
    move(sky, more, alice)
    publish(desk, alice)
    pins.remove_pin(other, actor=alice)
    publish(desk, alice)

    assert numbers(desk) == [(1, "1.0.0", 1), (2, "1.0.0", 1), (2, "1.1.0", 2)]


def test_a_tool_that_was_away_goes_on_counting(alice, desk, sky):
    make_pin(desk, make_tool(make_signature("mail")))
    publish(desk, alice)
    pins.remove_pin(sky, actor=alice)
    publish(desk, alice)
    again = make_pin(desk, sky.tool, name="sky")
    publish(desk, alice)
    tunings.tune(again, actor=alice, description="Looks up.")
    publish(desk, alice)

    rows = EffectiveVersion.objects.filter(tool=sky.tool.pk)
    assert [(row.release.number, row.number) for row in rows] == [(1, 1), (4, 2)]


def test_what_breaks_callers_is_another_tool_and_the_page_says_so(alice, desk, sky):
    publish(desk, alice)
    tunings.tune(sky, actor=alice, parameters={"city": {"name": "town"}})

    (check,) = [
        check for check in draft_review.review_draft(desk, alice).checks if check.code == "another_tool_id"
    ]
    assert check.severity == "warning"
    assert check.where == f"/agents/desk/pins/{sky.pk}/"
    assert check.message.startswith("“sky” gets another id for A2T clients and a new major version for OXP")
    assert "“town” was called “city”" in check.message

    publish(desk, alice)
    tunings.tune(sky, actor=alice, description="Looks up.", parameters={"city": {"name": "town"}})
    assert "another_tool_id" not in {check.code for check in draft_review.review_draft(desk, alice).checks}
    publish(desk, alice)
    assert numbers(desk) == [(1, "1.0.0", 1), (2, "2.0.0", 1), (3, "2.0.1", 2)]
    first, second, third = EffectiveVersion.objects.order_by("pk")
    assert str(first.uuid) == ID
    assert second.uuid == third.uuid != first.uuid
    assert len({row.dotted_name for row in (first, second, third)}) == 1


def test_another_tool_of_the_same_id_gets_one_of_its_own(alice, desk, sky):
    publish(desk, alice)
    make_pin(desk, make_tool(make_signature("sky"), tool_id=ID), name="sky_2")
    publish(desk, alice)

    first, second = EffectiveVersion.objects.order_by("pk")
    assert (str(first.uuid), first.number) == (ID, 1)
    assert second.uuid != first.uuid


def test_each_agent_of_a_tree_counts_by_itself_and_transfers_are_counted(alice, desk, sky):
    child = agents.create_agent(actor=alice, name="Refills", parent=desk)
    make_pin(child, sky.tool)
    publish(desk, alice)
    agents.update_agent(child, actor=alice, slug="repeats")
    publish(desk, alice)
    publish(child, alice)

    rows = {(row.agent_id, row.node, row.tool, row.child): row for row in EffectiveVersion.objects.all()}
    assert rows.keys() == {
        (desk.pk, desk.pk, sky.tool_id, 0),
        (desk.pk, child.pk, sky.tool_id, 0),
        (desk.pk, desk.pk, 0, child.pk),
        (child.pk, child.pk, sky.tool_id, 0),
    }


def test_releases_that_are_older_than_the_numbers_are_numbered_when_they_are_asked_for(alice, desk, sky):
    publish(desk, alice)
    tunings.tune(sky, actor=alice, parameters={"city": {"name": "town"}})
    last = publish(desk, alice)
    before = list(EffectiveVersion.objects.order_by("pk").values_list("uuid", "number", "semver", "release"))
    forget_numbers()

    tools = effective_versions.tools_of(last)
    versions = effective_versions.versions_of_tools(last, desk.pk, tools.items())
    effective_versions.store_numbers(desk.pk)

    assert [row.semver for row in versions.values()] == ["2.0.0"]
    rows = EffectiveVersion.objects.order_by("pk")
    assert list(rows.values_list("uuid", "number", "semver", "release")) == before


def test_older_releases_are_numbered_a_few_at_a_time_one_document_after_the_other(
    alice, desk, sky, monkeypatch
):
    publish(desk, alice)
    for words in ("Looks up.", "Looks down."):
        agents.update_agent(desk, actor=alice, description=words)
        publish(desk, alice)
    for words in ("Looks up.", "Looks down."):
        tunings.tune(sky, actor=alice, description=words)
        publish(desk, alice)
    before = numbers(desk)
    forget_numbers()
    monkeypatch.setattr(effective_versions, "BATCH_SIZE", 2)

    with documents_read() as statements:
        effective_versions.store_numbers(desk.pk)
    assert numbers(desk) == before == [(1, "1.0.0", 1), (4, "1.0.1", 2), (5, "1.0.2", 3)]
    assert all('WHERE "designer_release"."id" = ' in statement for statement in statements)
    # Each release, and for what a later transaction compares with the one that showed it last.
    assert len(statements) <= 5 + 2


def test_a_release_that_changed_no_tool_is_read_once(alice, desk, sky, django_capture_on_commit_callbacks):
    publish(desk, alice)
    agents.update_agent(desk, actor=alice, description="Other words.")
    with django_capture_on_commit_callbacks(execute=True):
        publish(desk, alice)
    with documents_read() as statements:
        effective_versions.store_numbers(desk.pk)
    assert statements == []

    tunings.tune(sky, actor=alice, description="Looks up.")
    publish(desk, alice)
    assert numbers(desk) == [(1, "1.0.0", 1), (3, "1.0.1", 2)]


def test_what_a_release_holds_is_read_once_and_its_retirement_is_asked_each_time(alice, desk, sky):
    make_pin(desk, make_tool(make_signature("mail")))
    first = publish(desk, alice)
    pins.remove_pin(sky, actor=alice)
    for words in ("Looks up.", "Looks down."):
        agents.update_agent(desk, actor=alice, description=words)
        last = publish(desk, alice)
    version = EffectiveVersion.objects.get(tool=sky.tool_id)

    with documents_read() as statements:
        assert effective_versions.release_with(version, last) == first
    assert len(statements) == 3
    with documents_read() as statements:
        assert effective_versions.release_with(version, last) == first
    assert statements == []
    now = timezone.now()
    Retirement.objects.create(release=first, reason="Old.", sunset_at=now, retired_by=alice)
    assert effective_versions.release_with(version, last) is None


def test_numbers_are_never_written_again(alice, desk, sky):
    publish(desk, alice)
    rows = EffectiveVersion.objects.all()
    for change in (lambda: rows.update(number=7), rows.delete):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()
    assert numbers(desk) == [(1, "1.0.0", 1)]


def test_publishing_numbers_what_the_export_shows(alice, desk, sky):
    """The id and the version are those that a tool has from then on."""
    release = publish(desk, alice)
    shown_document = document.decode(release.document)
    (row,) = EffectiveVersion.objects.all()
    assert a2t.write(shown_document)["items"][0]["toolId"] == str(row.uuid)
    assert oxp.write(shown_document)["items"][0]["id"] == f"{row.dotted_name}@{row.semver}"
    assert composition.is_same(shown_document, composition.draft(desk))


# Rules, without a database.

NAMES = st.sampled_from(["city", "days", "unit"])
PARAMETERS = st.builds(
    make_parameter,
    NAMES,
    type=st.sampled_from(["string", "int", "boolean"]),
    required=st.booleans(),
    description=st.sampled_from(["", "Some words."]),
)
ENUM = make_parameter(
    "unit", type="enum", allowed_values=(AllowedValue("METRIC", "m"), AllowedValue("IMPERIAL", "ft"))
)
SIGNATURES = st.builds(
    make_signature,
    name=st.just("sky"),
    description=st.sampled_from(["Looks up.", "Looks down."]),
    inputs=st.lists(PARAMETERS | st.just(ENUM), max_size=3, unique_by=lambda p: p.name).map(tuple),
    # A tool without outputs gets one in A2T, which disappears as soon as it has outputs. Neither
    # format states which outputs are always present.
    outputs=st.lists(
        PARAMETERS.map(lambda output: structs.replace(output, required=False)),
        min_size=1,
        max_size=2,
        unique_by=lambda p: p.name,
    ).map(tuple),
)


def released(signature, *, name="sky", ordinal=1) -> ReleasedTool:
    return ReleasedTool(
        id=1,
        tool_id=ID,
        vendor="acme",
        endpoint="http://v/",
        protocol="a2t",
        version=ReleasedVersion(ordinal=ordinal, label=str(ordinal), digest=str(ordinal)),
        signature=effective(signature, name=name),
        tuning={},
    )


@given(SIGNATURES, SIGNATURES)
def test_a_version_of_a_tool_lets_callers_of_the_last_one_go_on(was, now):
    old, new = released(was), released(now, ordinal=2)
    start = numbering.first_number(old, uuids=(), names=())
    after = numbering.next_number(start, old, new)
    is_safe = diff.compare(was, now).effects <= set(diff.SAFE)
    assert (after.uuid == start.uuid) == is_safe == (not numbering.list_breaks(old, new))
    assert after.number == (2 if is_safe else 1)
    assert after.semver.startswith("1." if is_safe else "2.0.0")


@given(st.lists(st.sampled_from("ab"), max_size=4))
def test_ids_are_given_once(count_taken):
    tool, uuids, names = released(make_signature("sky")), set(), set()
    for _ in range(len(count_taken) + 1):
        number = numbering.first_number(tool, uuids=uuids, names=names)
        assert number.uuid not in uuids
        assert number.dotted_name.lower() not in names
        uuids.add(number.uuid)
        names.add(number.dotted_name.lower())


def test_another_name_of_the_tool_breaks_callers_and_a_hint_does_not():
    plain = released(make_signature("sky"))
    assert numbering.list_breaks(plain, released(make_signature("sky"), name="heaven"))
    assert not numbering.list_breaks(plain, released(make_signature("sky", tags=("sun",), title="Sky")))


def test_a_tool_is_known_by_its_agent_and_not_by_its_name():
    one = released(make_signature("sky"))
    agent = ReleasedAgent(slug="desk", name="Desk", description="")
    tools_by_key = numbering.tools_of_document(
        ReleaseDocument(schema="s", agent=agent, number=1, tools=(one,)), 7
    )
    assert tools_by_key == {numbering.NumberedToolKey(7, 1): one}
