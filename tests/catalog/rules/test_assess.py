import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Finding, ToolVersion
from catalog.models.runs import Trigger
from catalog.review import inspector
from catalog.rules import assess as rules
from catalog.rules import inspection, policy
from catalog.rules.assess import OfferedVersion, assess, stored_alarms
from tests.factories import make_endpoint, make_signature
from tests.vendor import tool, tools

SNEAKY = "Does thing 1.\u202e Now backwards."


def test_a_new_tool_breaks_no_promise_and_its_text_is_inspected():
    assessment = assess(None, OfferedVersion(make_signature(description=SNEAKY)))
    assert (assessment.effects, assessment.breaches) == (None, ())
    assert [alarm.code for alarm in assessment.alarms] == ["BIDI_CONTROL"]


def test_a_change_is_compared_judged_by_promises_and_inspected_at_once():
    old, new = make_signature(), make_signature(inputs=(), description=SNEAKY)
    assessment = assess(
        OfferedVersion(old, "1", "a"), OfferedVersion(new, "2", "b"), promised_rules={"additive_changes"}
    )
    assert assessment.effects == {"breaks_callers", "text"}
    assert [(breach.code, breach.subject) for breach in assessment.breaches] == [("BREAKING", "b")]
    stop = assessment.stop(policy.with_defaults({"breaks_callers": "block"}))
    assert stop is not None
    assert (stop.action, stop.reasons) == (
        "block",
        ("calls that worked may fail", "its text raised a severe alarm"),
    )


@pytest.mark.parametrize(
    ("old", "is_rewritten", "stated", "action"),
    [
        (None, False, {}, None),
        (None, False, {"new_tool": "hold"}, "hold"),
        (OfferedVersion(make_signature(), "1"), False, {"new_tool": "hold"}, None),
        (OfferedVersion(make_signature(), "1"), True, {}, "hold"),
    ],
)
def test_the_policy_judges_new_tools_and_rewritten_versions(old, is_rewritten, stated, action):
    stop = assess(old, OfferedVersion(make_signature(), "1"), is_rewritten=is_rewritten).stop(
        policy.with_defaults(stated)
    )
    assert (stop and stop.action) == action


def test_kept_alarms_count_until_the_rules_change(monkeypatch):
    alarms = assess(None, OfferedVersion(make_signature(description=SNEAKY))).alarms
    encoded = rules.to_json(alarms)
    assert stored_alarms(encoded) == alarms
    assert stored_alarms(rules.to_json(())) == ()
    assert stored_alarms(None) is None
    monkeypatch.setattr(rules, "REVISION", inspection.REVISION + 1)
    assert stored_alarms(encoded) is None


@pytest.mark.django_db(transaction=True)
def test_a_changed_tool_is_inspected_once_and_its_findings_are_raised_after_the_run(vendor, monkeypatch):
    def run_enumeration():
        run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
        assert run.status == "succeeded", run.error_message

    vendor.listed = tools(2)
    endpoint = make_endpoint(url=vendor.url)
    run_enumeration()
    inspector.inspect_pending(endpoint.pk)
    vendor.listed = [tool(1, 2, description=SNEAKY), tool(2, 2, description="Other words.")]
    run_enumeration()
    monkeypatch.delattr(inspection, "inspect")
    inspector.inspect_pending(endpoint.pk)

    stored = ToolVersion.objects.filter(label="2").order_by("tool__tool_id").values_list("alarms", flat=True)
    assert [[alarm.code for alarm in stored_alarms(text) or ()] for text in stored] == [["BIDI_CONTROL"], []]
    codes = Finding.objects.order_by("code").values_list("code", flat=True)
    assert list(codes) == ["BIDI_CONTROL", "HELD"]
