import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Finding, Tool
from catalog.models.runs import Trigger
from catalog.review import decisions, inspector
from catalog.rules import policy
from catalog.rules.inspection import Alarm
from people.models import Role
from tests.factories import make_endpoint, make_user
from tests.vendor import tool, tools

pytestmark = pytest.mark.django_db(transaction=True)
SNEAKY = "Does thing 1.\u202e Now backwards."


def run_enumeration(endpoint):
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert run.status == "succeeded", run.error_message
    inspector.inspect_pending(endpoint.pk)
    return run


def first_of(endpoint) -> Tool:
    tool = Tool.objects.select_related("current", "stopped").order_by("tool_id").first()
    assert tool
    assert tool.endpoint_id == endpoint.pk
    return tool


@pytest.fixture
def connect(vendor):
    def connected(**stated):
        vendor.listed = tools(3)
        endpoint = make_endpoint(url=vendor.url, policy=stated)
        run_enumeration(endpoint)
        return endpoint

    return connected


def held_finding() -> Finding:
    return Finding.objects.get(code="HELD")


def test_by_default_a_change_is_let_through(vendor, connect):
    endpoint = connect()
    vendor.listed = [tool(1, 2, description="Does it otherwise."), *tools(3)[1:]]

    run_enumeration(endpoint)

    assert (first_of(endpoint).current.label, first_of(endpoint).stopped) == ("2", None)
    assert not Finding.objects.filter(code="HELD").exists()


@pytest.mark.parametrize(
    ("members", "stated"),
    [
        ({"description": "Does it otherwise."}, {"text": "hold"}),
        ({"input_parameters": []}, {"breaks_callers": "hold"}),
        ({"output_parameters": []}, {"breaks_readers": "hold"}),
        ({"description": SNEAKY}, {}),
    ],
)
def test_a_held_version_waits_behind_the_one_before_it(vendor, connect, members, stated):
    endpoint = connect(**stated)
    vendor.listed = [tool(1, 2, **members), *tools(3)[1:]]

    run_enumeration(endpoint)

    first = first_of(endpoint)
    assert (first.current.label, first.stopped.label, first.version_count) == ("1", "2", 2)
    assert first.description == "Does thing 1."
    assert (held_finding().state, held_finding().version, held_finding().subject) == (
        "open",
        first.stopped,
        first.stopped.digest,
    )


def test_an_accepted_version_becomes_current(vendor, connect):
    endpoint = connect(text="hold")
    vendor.listed = [tool(1, 2, description="Does it otherwise."), *tools(3)[1:]]
    run_enumeration(endpoint)

    decisions.resolve(held_finding(), actor=make_user(Role.ADMIN), decision="accept")

    first = first_of(endpoint)
    assert (first.current.label, first.stopped, first.description) == ("2", None, "Does it otherwise.")
    assert run_enumeration(endpoint).unchanged == 3


def test_a_blocked_version_stays_out_and_is_not_told_again(vendor, connect):
    endpoint = connect(text="hold")
    changed = [tool(1, 2, description="Does it otherwise."), *tools(3)[1:]]
    vendor.listed = changed
    run_enumeration(endpoint)
    decisions.resolve(held_finding(), actor=make_user(Role.ADMIN), decision="block")

    assert run_enumeration(endpoint).unchanged == 3
    vendor.listed = [tool(1, 3, description="Does thing 1."), *tools(3)[1:]]
    endpoint.policy = {}
    endpoint.save()
    run_enumeration(endpoint)
    assert first_of(endpoint).current.label == "3"

    assert first_of(endpoint).stopped is None
    assert Finding.objects.filter(code="HELD").count() == 1
    assert held_finding().state == "blocked"


def test_a_policy_may_block_without_asking(vendor, connect):
    endpoint = connect(breaks_callers="block", text="hold")
    vendor.listed = [tool(1, 2, input_parameters=[], description="Other words"), *tools(3)[1:]]

    run_enumeration(endpoint)

    assert (held_finding().state, first_of(endpoint).current.label) == ("blocked", "1")
    assert "blocked by the policy" in held_finding().message


def test_the_newest_held_version_is_the_one_that_waits(vendor, connect):
    endpoint = connect(text="hold")
    for version in (2, 3):
        vendor.listed = [tool(1, version, description=f"Words {version}"), *tools(3)[1:]]
        run_enumeration(endpoint)
    older, newer = Finding.objects.filter(code="HELD").order_by("pk")

    decisions.resolve(older, actor=make_user(Role.ADMIN), decision="accept")
    assert (first_of(endpoint).current.label, first_of(endpoint).stopped.label) == ("1", "3")

    decisions.resolve(newer, actor=make_user(Role.ADMIN), decision="accept")
    assert (first_of(endpoint).current.label, first_of(endpoint).stopped) == ("3", None)


def test_a_later_harmless_version_overtakes_a_held_one(vendor, connect):
    endpoint = connect(breaks_callers="hold")
    vendor.listed = [tool(1, 2, input_parameters=[]), *tools(3)[1:]]
    run_enumeration(endpoint)
    vendor.listed = [tool(1, 3, description="Better words"), *tools(3)[1:]]

    run_enumeration(endpoint)

    assert (first_of(endpoint).current.label, first_of(endpoint).stopped) == ("3", None)


def test_new_tools_may_have_to_wait(vendor, connect):
    endpoint = connect(new_tool="hold")

    assert Finding.objects.filter(code="HELD", state="open").count() == 3
    assert not Tool.objects.exclude(stopped=first_of(endpoint).stopped).filter(stopped=None).exists()
    first = first_of(endpoint)
    assert first.current == first.stopped

    finding = Finding.objects.get(code="HELD", tool=first)
    decisions.resolve(finding, actor=make_user(Role.ADMIN), decision="accept")
    assert first_of(endpoint).stopped is None
    assert run_enumeration(endpoint).unchanged == 3


def test_a_changed_tool_that_nobody_let_through_is_still_new(vendor, connect):
    endpoint = connect(new_tool="hold")
    vendor.listed = [tool(1, 2, description="Other words"), *tools(3)[1:]]

    run_enumeration(endpoint)

    first = first_of(endpoint)
    assert (first.current.label, first.current) == ("2", first.stopped)


def test_a_new_tool_with_hidden_text_is_held_once_it_is_inspected(vendor):
    vendor.listed = [tool(1, description=SNEAKY), *tools(3)[1:]]
    endpoint = make_endpoint(url=vendor.url)

    run_enumeration(endpoint)

    first = first_of(endpoint)
    assert (first.current, held_finding().severity, held_finding().state) == (first.stopped, "high", "open")
    assert "U+202E RLO" in Finding.objects.get(code="BIDI_CONTROL").message
    inspector.inspect_pending()
    assert Finding.objects.filter(code="HELD").count() == 1


def test_alarms_may_be_let_through(vendor):
    vendor.listed = [tool(1, description=SNEAKY), *tools(3)[1:]]
    endpoint = make_endpoint(url=vendor.url, policy={"alarm_high": "accept"})

    run_enumeration(endpoint)

    assert first_of(endpoint).stopped is None
    assert Finding.objects.get(severity="high").code == "BIDI_CONTROL"


def test_known_bytes_that_were_let_through_come_back_unasked(vendor, connect):
    endpoint = connect(text="hold")
    for listed_tools in ([tool(1, 2, input_parameters=[]), *tools(3)[1:]], [tool(1, 2, description="x")]):
        vendor.listed = [listed_tools[0], *tools(3)[1:]]
        run_enumeration(endpoint)
    assert first_of(endpoint).stopped

    vendor.listed = [tool(1, 2, input_parameters=[]), *tools(3)[1:]]
    run_enumeration(endpoint)

    assert (first_of(endpoint).stopped, first_of(endpoint).current.ordinal) == (None, 2)


@pytest.mark.parametrize(
    ("stated", "effects_found", "action"),
    [
        ({}, {"text", "compatible"}, None),
        ({"text": "hold"}, {"text", "compatible"}, "hold"),
        ({"text": "hold", "breaks_callers": "block"}, {"text", "breaks_callers"}, "block"),
        ({"text": "hold"}, {"breaks_callers"}, None),
        ({}, {"alarm_high"}, "hold"),
        ({"alarm_high": "accept"}, {"alarm_high"}, None),
    ],
)
def test_the_strictest_action_wins(stated, effects_found, action):
    stop = policy.apply_policy(policy.with_defaults(stated), effects_found)

    assert (stop and stop.action) == action


def test_classes_follow_effects_and_the_worst_alarm():
    alarms = [Alarm("A", "medium", "x"), Alarm("B", "high", "y")]

    assert policy.classes(None, []) == {"new_tool"}
    assert policy.classes({"cosmetic"}, []) == {"compatible"}
    assert policy.classes({"text"}, alarms) == {"text", "alarm_high"}
    assert policy.classes(set(), alarms[:1]) == {"alarm_medium"}
