"""Activities that call tools: what reaches vendors, what comes of the whole, what is never sent twice."""

import pytest
from django.db import DatabaseError, transaction

from catalog.models import Activity, ActivityVersion, Call, ToolVersion
from core.errors import DomainError
from execution.activities import kinds, operations, reach
from execution.calls import cancellation, invocation, requesting
from execution.calls.checks import ConfirmationError
from people.models import AuditEntry, Role
from protocols.signature import Annotations
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, in_turn, json_reply

pytestmark = pytest.mark.django_db

FAIR = json_reply({"output_parameters": [{"name": "weather", "value": "fair"}]})
FAILS = json_reply({"error": {"code": "NO_SUCH_PLACE", "message": "Never heard of it."}}, status=409)


def make_version(url: str, inputs: str, outputs: str, **fields) -> ToolVersion:
    signature = make_signature(
        inputs=tuple(make_parameter(name) for name in inputs.split()),
        outputs=tuple(make_parameter(name) for name in outputs.split()),
        **fields,
    )
    return make_tool(signature, endpoint=make_endpoint(url=url)).current


def step_of(version: ToolVersion, **inputs) -> dict:
    return {"tool": version.tool_id, "ordinal": version.ordinal, "inputs": inputs}


def make_activity(kind: str, steps: list, outputs: dict, interface: ToolVersion | None = None) -> Activity:
    return operations.create(
        actor=make_user(Role.DESIGNER),
        name=f"Activity {Activity.objects.count() + 1}",
        kind=kind,
        config={"steps": steps, "outputs": outputs},
        interface=interface,
    )


def call(interface: ToolVersion, activity: Activity, actor=None, options=None, **arguments) -> Call:
    """Return the call's row afterwards."""
    result = invocation.call_now(
        interface,
        actor=actor or make_user(Role.DESIGNER),
        arguments=arguments,
        activity=activity.current,
        **(options or {}),
    )
    return Call.objects.get(pk=result.pk)


def test_another_vendor_answers_under_the_names_of_the_interface():
    with HostileVendor(FAIR) as vendor:
        interface = make_version("http://127.0.0.1:9", "place", "sky")
        other = make_version(vendor.url, "city", "weather")
        activity = make_activity(
            "vendor",
            [step_of(other, city={"input": "place"})],
            {"sky": {"step": 1, "output": "weather"}},
            interface,
        )
        result = call(interface, activity, place="Oslo")

    assert (result.outcome, result.decoded().outputs) == ("ok", {"sky": "fair"})
    assert [request.json()["input_parameters"] for request in vendor.requests] == [
        [{"name": "city", "value": "Oslo"}]
    ]
    step = result.steps.get()
    assert (step.tool, step.outcome, step.requested_by) == (other.tool, "ok", result.requested_by)
    ran = AuditEntry.objects.filter(action="run")
    assert {row.object_id for row in ran} == {str(interface.tool_id), str(other.tool_id)}


def test_a_step_that_does_not_work_names_itself_and_ends_the_whole():
    with HostileVendor(FAILS) as vendor:
        interface = make_version("http://127.0.0.1:9", "place", "sky")
        other = make_version(vendor.url, "city", "weather")
        activity = make_activity("vendor", [step_of(other, city={"input": "place"})], {}, interface)
        result = call(interface, activity, place="Oslo")

    error = result.decoded().error
    assert result.outcome == result.steps.get().outcome == "tool_error"
    assert error["step"] == 1
    assert error["message"].startswith("Step 1")


def test_what_a_vendor_says_of_inputs_is_said_of_those_that_the_caller_knows():
    wrong = {"city": "is no town", "city.name": "is empty", "unit": "is not one of ours"}
    refuses = json_reply({"error": {"code": "BAD", "message": "Look again.", "fields": wrong}}, status=422)
    with HostileVendor(refuses) as vendor:
        interface = make_version("http://127.0.0.1:9", "place", "sky")
        other = make_version(vendor.url, "city unit", "weather")
        steps = [step_of(other, city={"input": "place"}, unit={"value": "kelvin"})]
        result = call(interface, make_activity("vendor", steps, {}, interface), place="Oslo")

    error = result.decoded().error
    assert result.outcome == "invalid_arguments"
    assert error["fields"] == {"place": "is no town", "place.name": "is empty"}
    assert "city" not in error["message"]
    assert "“unit” is not one of ours" in error["message"]


def codes_of(config: dict, interface: ToolVersion | None, kind: str = "composite") -> list[str]:
    signature = interface.decoded() if interface else None
    return [fault.code for fault in kinds.get(kind).faults(config, signature)]


def two_steps(url: str) -> tuple[ToolVersion, dict]:
    """An interface, and a composite for it: where a place lies, and the weather there."""
    interface = make_version("http://127.0.0.1:9", "place", "sky")
    finds, tells = make_version(url, "name", "where"), make_version(url, "city", "weather")
    steps = [
        step_of(finds, name={"input": "place"}),
        step_of(tells, city={"step": 1, "output": "where", "at": "/city"}),
    ]
    return interface, {"steps": steps, "outputs": {"sky": {"step": 2, "output": "weather"}}}


def composite(interface: ToolVersion, config: dict) -> Activity:
    return make_activity("composite", config["steps"], config["outputs"], interface)


FOUND = json_reply({"output_parameters": [{"name": "where", "value": {"city": "Oslo", "id": 7}}]})


def test_what_one_step_came_to_goes_into_the_next():
    with HostileVendor(in_turn(FOUND, FAIR)) as vendor:
        interface, config = two_steps(vendor.url)
        result = call(interface, composite(interface, config), place="oslo, please")

    assert (result.outcome, result.decoded().outputs) == ("ok", {"sky": "fair"})
    assert [request.json()["input_parameters"] for request in vendor.requests] == [
        [{"name": "name", "value": "oslo, please"}],
        [{"name": "city", "value": "Oslo"}],
    ]


def test_the_second_step_names_itself_and_what_went_before_is_not_repeated():
    with HostileVendor(in_turn(FOUND, FAILS)) as vendor:
        interface, config = two_steps(vendor.url)
        result = call(interface, composite(interface, config), place="Oslo")

    result_document = result.decoded()
    assert result.outcome == "tool_error"
    assert result_document.error["step"] == 2
    assert len(vendor.requests) == 2
    # A retry of the whole would repeat the first step, which is not declared as safe to repeat.
    assert result_document.retry.can_retry is False


def test_a_step_whose_inputs_do_not_fit_is_not_sent():
    with HostileVendor(json_reply({"output_parameters": [{"name": "where", "value": "here"}]})) as vendor:
        interface, config = two_steps(vendor.url)
        result = call(interface, composite(interface, config), place="Oslo")

    assert (result.outcome, result.error_code) == ("tool_error", "UNFIT_INPUTS")
    assert "“city” is required" in result.decoded().error["message"]
    assert len(vendor.requests) == 1


def test_what_cannot_run_is_refused_when_it_is_saved():
    interface, config = two_steps("http://127.0.0.1:9")
    steps = config["steps"]
    assert codes_of(config, interface) == []

    def with_step(number: int, **inputs) -> dict:
        changed = [dict(step) for step in steps]
        changed[number - 1]["inputs"] = inputs
        return {**config, "steps": changed}

    assert codes_of(with_step(1), interface) == ["missing_input"]
    assert codes_of(with_step(1, name={"input": "gone"}), interface) == ["unknown_source"]
    assert codes_of(with_step(1, name={"step": 2, "output": "weather"}), interface) == ["unknown_source"]
    assert codes_of(with_step(2, city={"step": 1, "output": "wher"}), interface) == ["unknown_source"]
    assert codes_of(with_step(1, name={"value": 5}), interface) == ["unfit_value"]
    assert codes_of(with_step(1, name={"input": "place", "value": "x"}), interface) == ["unclear_source"]
    assert codes_of(with_step(2, city={"step": 1, "output": "where", "at": "city"}), interface) == [
        "unclear_source"
    ]
    assert codes_of(with_step(1, name={"input": "place"}, more={"value": ""}), interface) == [
        "unknown_target"
    ]
    assert codes_of({**config, "outputs": {"rain": {"value": 1}}}, interface) == ["unknown_target"]
    assert codes_of({**config, "steps": []}, interface) == ["invalid"]
    assert codes_of({**config, "steps": steps * 11}, interface)[0] == "invalid"
    assert codes_of(config, interface, "vendor") == ["invalid"]
    assert codes_of({"steps": [{"tool": 0, "ordinal": 1}]}, interface)[0] == "unclear_step"
    assert codes_of({"steps": [{"tool": 10**9, "ordinal": 1}]}, interface)[0] == "unknown_tool"
    assert codes_of({"steps": [{"activity": 10**9}]}, interface)[0] == "unknown_activity"
    with pytest.raises(DomainError) as refused:
        kinds.get("composite").check({"steps": "none"}, None)
    assert refused.value.code == "invalid"


def test_an_activity_runs_another_one_and_never_itself():
    actor = make_user(Role.DESIGNER)
    with HostileVendor(FAIR) as vendor:
        interface = make_version("http://127.0.0.1:9", "place", "sky")
        tells = step_of(make_version(vendor.url, "city", "weather"), city={"input": "place"})
        inner = make_activity("vendor", [tells], {"sky": {"step": 1, "output": "weather"}}, interface)
        step = {"activity": inner.pk, "inputs": {"place": {"input": "place"}}}
        outer = make_activity("composite", [step], {"sky": {"step": 1, "output": "sky"}}, interface)
        result = call(interface, outer, place="Oslo")
        assert (result.outcome, result.decoded().outputs) == ("ok", {"sky": "fair"})
        (middle,) = result.steps.all()
        assert middle.activity == inner.current
        assert middle.steps.get().tool_id == tells["tool"]

    with pytest.raises(DomainError) as refused:
        operations.remove(inner, actor=actor)
    assert refused.value.code == "activity_in_use"
    other = make_activity("composite", [{**step, "activity": outer.pk}], {}, interface)
    with pytest.raises(DomainError) as refused:
        operations.change(
            outer, actor=actor, config={"steps": [{**step, "activity": other.pk}], "outputs": {}}
        )
    assert refused.value.code == "activity_reaches_itself"
    # Two changes at once, neither of which saw the other one, end here all the same.
    looped = outer.versions.create(
        number=9,
        kind="composite",
        config={"steps": [{**step, "activity": other.pk}], "outputs": {}},
        interface=interface,
        digest="0" * 64,
        created_by=actor,
    )
    Activity.objects.filter(pk=outer.pk).update(current=looped)
    outer.refresh_from_db()
    result = call(interface, outer, place="Oslo")
    assert (result.outcome, result.error_code) == ("refused", "activity_reaches_itself")


def test_activities_run_each_other_eight_deep_and_no_deeper():
    interface = make_version("http://127.0.0.1:9", "place", "sky")
    tells = step_of(make_version("http://127.0.0.1:9", "city", "weather"), city={"input": "place"})
    last = make_activity("vendor", [tells], {}, interface)
    step = {"inputs": {"place": {"input": "place"}}}
    for _ in range(7):
        last = make_activity("composite", [{**step, "activity": last.pk}], {}, interface)
    with pytest.raises(DomainError) as refused:
        make_activity("composite", [{**step, "activity": last.pk}], {}, interface)
    assert refused.value.code == "activity_too_deep"


def test_a_step_that_asks_stops_the_whole_which_goes_on_there():
    needs_user = json_reply({"message": "Who?", "missing_requirements": {"user_id": True}}, status=400)
    done = json_reply({"call_id": "1", "success": True, "value": {"sent": True}})
    with HostileVendor(in_turn(FOUND, needs_user, done)) as vendor:
        interface = make_version("http://127.0.0.1:9", "place", "sky")
        finds = make_version(vendor.url, "name", "where")
        asks = make_tool(make_signature(), endpoint=make_endpoint(url=vendor.url, protocol="oxp")).current
        steps = [
            step_of(finds, name={"input": "place"}),
            step_of(asks, city={"step": 1, "output": "where", "at": "/city"}),
        ]
        activity = make_activity("composite", steps, {"sky": {"step": 1, "output": "where", "at": "/id"}})
        stopped = call(interface, activity, place="Oslo")
        assert (stopped.outcome, stopped.decoded().error["step"]) == ("needs_authorization", 2)
        assert [ask.id for ask in stopped.decoded().asks] == ["user_id"]
        with pytest.raises(DomainError):
            invocation.continue_now(stopped, actor=stopped.requested_by, answers={})
        over = invocation.continue_now(stopped, actor=stopped.requested_by, answers={"user_id": "ada"})

    over.refresh_from_db()
    assert (over.outcome, over.decoded().outputs) == ("ok", {"sky": "7"})
    assert len(vendor.requests) == 3
    assert over.steps.get().continues == stopped.steps.get(version=asks)


def test_the_steps_of_a_call_count_with_it(monkeypatch):
    monkeypatch.setattr(requesting, "USERS_CALLS_AT_ONCE", 1)
    with HostileVendor(in_turn(FOUND, FAIR)) as vendor:
        interface, config = two_steps(vendor.url)
        assert call(interface, composite(interface, config), place="Oslo").outcome == "ok"


def test_a_step_is_not_made_for_a_call_that_has_ended():
    with HostileVendor(FAIR) as vendor:
        interface, config = two_steps(vendor.url)
        activity = composite(interface, config)
        pending_call = requesting.request_call(
            interface,
            actor=make_user(Role.DESIGNER),
            arguments={"place": "Oslo"},
            activity=activity.current,
            is_claimed=True,
        )
        cancellation.cancel(pending_call, actor=pending_call.requested_by)
        with pytest.raises(DomainError) as refused:
            requesting.request_call(
                config_version(config),
                actor=pending_call.requested_by,
                arguments={"name": "Oslo"},
                is_claimed=True,
                parent=pending_call,
            )
    assert refused.value.code == "ended_meanwhile"
    assert vendor.requests == []


def config_version(config: dict) -> ToolVersion:
    return ToolVersion.objects.get(tool=config["steps"][0]["tool"])


def test_what_may_destroy_something_in_a_step_is_confirmed_first():
    interface, config = two_steps("http://127.0.0.1:9")
    destroys = make_signature(
        inputs=(make_parameter("name"),),
        outputs=(make_parameter("where"),),
        annotations=Annotations(destructive=True),
    )
    tool = make_tool(destroys, endpoint=make_endpoint(url="http://127.0.0.1:9"))
    config["steps"][0] = step_of(tool.current, name={"input": "place"})
    activity = composite(interface, config)
    with pytest.raises(ConfirmationError, match="may destroy"):
        call(interface, activity, place="Oslo")
    assert call(interface, activity, options={"is_confirmed": True}, place="Oslo").outcome == "unavailable"


def test_the_removed_vendor_of_the_tool_is_not_asked():
    with HostileVendor(FAIR) as vendor:
        interface = make_version("http://127.0.0.1:9", "place", "sky")
        activity = make_activity(
            "vendor",
            [step_of(make_version(vendor.url, "city", "weather"), city={"value": "Bergen"})],
            {"sky": {"step": 1, "output": "weather"}},
        )
        endpoint = interface.tool.endpoint
        type(endpoint).objects.filter(pk=endpoint.pk).update(removed_at="2026-01-01T00:00Z")
        assert call(interface, activity, place="Oslo").outcome == "ok"


def test_a_saved_version_never_changes_and_a_change_is_the_next():
    version = make_version("http://127.0.0.1:9", "city", "weather")
    activity = make_activity("vendor", [step_of(version, city={"value": "Oslo"})], {})
    first = activity.current
    changed = operations.change(
        activity,
        actor=make_user(Role.DESIGNER),
        config={"steps": [step_of(version, city={"value": "Bergen"})], "outputs": {}},
    )
    assert [version.number for version in changed.versions.all()] == [2, 1]
    assert AuditEntry.objects.filter(kind="activity", action="edit").count() == 1
    with pytest.raises(DatabaseError), transaction.atomic():
        ActivityVersion.objects.filter(pk=first.pk).update(config={})


def test_a_second_activity_of_the_same_name_is_refused_until_the_first_is_removed():
    actor = make_user(Role.DESIGNER)
    version = make_version("http://127.0.0.1:9", "city", "weather")
    config = {"steps": [step_of(version, city={"value": "Oslo"})], "outputs": {}}
    activity = operations.create(actor=actor, name="forecast", kind="vendor", config=config)
    with pytest.raises(DomainError) as refused:
        operations.create(actor=actor, name="forecast", kind="vendor", config=config)
    assert (refused.value.code, refused.value.status) == ("name_taken", 409)
    operations.remove(activity, actor=actor)
    operations.create(actor=actor, name="forecast", kind="vendor", config=config)


def times(activity: Activity, count: int) -> list:
    return [{"activity": activity.pk, "inputs": {"place": {"input": "place"}}}] * count


def test_a_call_makes_a_hundred_steps_in_all_and_no_more():
    actor = make_user(Role.DESIGNER)
    interface = make_version("http://127.0.0.1:9", "place", "sky")
    tell = step_of(make_version("http://127.0.0.1:9", "city", "weather"), city={"input": "place"})
    ten = make_activity("composite", [tell] * 10, {}, interface)
    # Nine times eleven steps, as the step that runs ten counts itself.
    largest_activity = make_activity("composite", [*times(ten, 9), tell], {}, interface)
    with pytest.raises(DomainError, match="110 steps in all") as refused:
        make_activity("composite", times(ten, 10), {}, interface)
    assert (refused.value.code, [*refused.value.fields]) == ("activity_too_many_steps", ["steps"])

    # One step more below, and what is above is too large.
    config = {"steps": [tell] * 11, "outputs": {}}
    with pytest.raises(DomainError, match=f"a part of “{largest_activity}”. .*109 steps") as refused:
        operations.change(ten, actor=actor, config=config)
    assert refused.value.code == "activity_too_many_steps"
    operations.remove(largest_activity, actor=actor)
    assert operations.change(ten, actor=actor, config=config).current.number == 2


def save_unjudged(activity: Activity, config: dict) -> None:
    """Save as two changes at once would, neither of which saw the other."""
    activity.current = activity.versions.create(
        number=activity.current.number + 1,
        kind=activity.current.kind,
        config=config,
        interface=activity.current.interface,
        digest="0" * 64,
        created_by=activity.current.created_by,
    )
    activity.save()


def test_what_is_too_large_becomes_smaller_step_by_step():
    actor = make_user(Role.DESIGNER)
    interface = make_version("http://127.0.0.1:9", "place", "sky")
    tell = step_of(make_version("http://127.0.0.1:9", "city", "weather"), city={"input": "place"})
    inner = make_activity("composite", [tell], {}, interface)
    outer = make_activity("composite", times(inner, 9), {}, interface)
    save_unjudged(inner, {"steps": [tell] * 20, "outputs": {}})
    # 189 steps in all, then 180, and never more again.
    inner = operations.change(inner, actor=actor, config={"steps": [tell] * 19, "outputs": {}})
    with pytest.raises(DomainError, match=f"a part of “{outer}”. .*189 steps"):
        operations.change(inner, actor=actor, config={"steps": [tell] * 20, "outputs": {}})
    outer = operations.change(outer, actor=actor, config={"steps": times(inner, 8), "outputs": {}})
    assert (inner.current.number, outer.current.number) == (3, 2)


def test_a_call_with_too_many_steps_is_not_begun():
    with HostileVendor(FAIR) as vendor:
        interface = make_version("http://127.0.0.1:9", "place", "sky")
        tell = step_of(make_version(vendor.url, "city", "weather"), city={"input": "place"})
        inner = make_activity("composite", [tell], {}, interface)
        outer = make_activity("composite", times(inner, 9), {}, interface)
        save_unjudged(inner, {"steps": [tell] * 20, "outputs": {}})
        save_unjudged(outer, {"steps": times(inner, 9), "outputs": {}})
        result = call(interface, outer, place="Oslo")
    assert (result.outcome, result.error_code) == ("refused", "activity_too_many_steps")
    assert vendor.requests == []


def test_what_grows_while_it_runs_stops_at_a_hundred_steps(monkeypatch):
    monkeypatch.setattr(invocation, "MAX_STEPS_IN_ALL", 5)
    with HostileVendor(FAIR) as vendor:
        interface = make_version("http://127.0.0.1:9", "place", "sky")
        tell = step_of(make_version(vendor.url, "city", "weather"), city={"input": "place"})
        inner = make_activity("composite", [tell, tell], {}, interface)
        result = call(interface, make_activity("composite", times(inner, 3), {}, interface), place="Oslo")
    assert (result.outcome, result.error_code) == ("refused", "activity_too_many_steps")
    assert result.decoded().error["step"] == 2
    assert len(vendor.requests) == 3


def test_what_a_call_reaches_is_counted_without_a_look_at_other_activities(django_assert_max_num_queries):
    interface = make_version("http://127.0.0.1:9", "place", "sky")
    tell = step_of(make_version("http://127.0.0.1:9", "city", "weather"), city={"input": "place"})
    last = make_activity("composite", [tell] * 2, {}, interface)
    for _ in range(3):
        last = make_activity("composite", times(last, 2), {}, interface)
    versions = [activity.current for activity in Activity.objects.select_related("current")]
    # One for each level, and one for the tools.
    with django_assert_max_num_queries(4):
        reach_of = reach.find_reach(versions)
    assert sorted((len(reached.versions), len(reached.tools)) for reached in reach_of.values()) == [
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 1),
    ]
    assert reach_of[last.current.pk].versions[0] == last.current
    with django_assert_max_num_queries(3):
        reach.refuse_too_many_steps(last.current)
