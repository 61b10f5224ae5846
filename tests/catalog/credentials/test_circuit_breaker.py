"""Nothing is sent while the circuit is open."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from catalog.credentials import circuit_breaker
from catalog.credentials.circuit_breaker import back_off
from catalog.enumeration import runs as enumeration_runs
from catalog.enumeration import schedule
from catalog.models import Call, Endpoint, Run, Tool, ToolVersion
from catalog.models.runs import RunStatus, Trigger
from catalog.vendors import operations as vendor_operations
from core.outbound.errors import RefusedError, UnavailableError
from execution.calls import invocation, requesting
from people.models import Role
from protocols.call_outcome import Outcome
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, in_turn, json_reply, reply


def connect(vendor: HostileVendor) -> ToolVersion:
    signature = make_signature(outputs=(make_parameter("weather"),))
    return make_tool(signature, endpoint=make_endpoint(url=vendor.url)).current


def call(version: ToolVersion) -> Call:
    call = requesting.request_call(version, actor=make_user(Role.DESIGNER), arguments={"city": "Oslo"})
    invocation.perform_due_calls()
    call.refresh_from_db()
    return call


def test_pauses_grow_from_half_a_minute_to_an_hour_and_differ():
    for failures in range(1, 12):
        pauses = [back_off(failures).total_seconds() for _ in range(50)]
        assert 30 <= min(pauses) <= max(pauses) <= 3_600
        assert len(set(pauses)) > 40
    least = [min(back_off(failures) for _ in range(20)) for failures in (1, 2, 3, 4)]
    assert least == sorted(least)


def moved(owner: Endpoint | Tool, seconds: float) -> None:
    """Time passes: what was to happen at some moment happens so much earlier."""
    circuit = circuit_breaker._circuit_of(owner).get()
    if circuit.open_until:
        circuit.open_until -= timedelta(seconds=seconds)
        circuit.save()


def failing(owner: Endpoint | Tool, times: int, retry_after: float | None = None) -> None:
    for _ in range(times):
        circuit_breaker.record_failure(owner, "CONNECT", retry_after)


@pytest.mark.django_db
def test_fifth_failure_in_a_row_opens_the_circuit():
    endpoint = make_endpoint(name="Weather")
    failing(endpoint, 4)
    circuit_breaker.admit(endpoint, 30)
    failing(endpoint, 1)
    with pytest.raises(UnavailableError, match="“Weather” did not answer 5 times in a row") as refused:
        circuit_breaker.admit(endpoint, 30)
    assert refused.value.code == "CIRCUIT_OPEN"
    assert "nothing was sent" in refused.value.message
    assert "unavailable until" in refused.value.message
    assert 25 <= refused.value.retry_after <= 40


@pytest.mark.django_db
def test_answer_in_between_starts_the_count_again():
    endpoint = make_endpoint()
    failing(endpoint, 4)
    circuit_breaker.record_run(endpoint, RefusedError("AUTH", "The vendor is there and says no."))
    failing(endpoint, 4)
    circuit_breaker.admit(endpoint, 30)


@pytest.mark.django_db
def test_one_probe_goes_and_its_answer_closes_the_circuit():
    endpoint = make_endpoint()
    failing(endpoint, 5)
    moved(endpoint, 45)
    circuit_breaker.admit(endpoint, 30)
    with pytest.raises(UnavailableError) as refused:
        circuit_breaker.admit(endpoint, 30)
    assert refused.value.retry_after <= 30
    circuit_breaker.record_run(endpoint, None)
    for _ in range(3):
        circuit_breaker.admit(endpoint, 30)


@pytest.mark.django_db
def test_probe_that_fails_opens_it_for_longer():
    endpoint = make_endpoint()
    failing(endpoint, 5)
    waits = []
    for _ in range(5):
        moved(endpoint, 3_600)
        circuit_breaker.admit(endpoint, 30)
        failing(endpoint, 1)
        with pytest.raises(UnavailableError) as refused:
            circuit_breaker.admit(endpoint, 30)
        waits.append(refused.value.retry_after)
    assert 290 <= waits[0] <= 375
    assert waits[1] >= 1_490
    assert 2_690 <= min(waits[2:]) <= max(waits[2:]) <= 3_600


@pytest.mark.django_db
def test_probe_that_died_is_followed_by_another():
    endpoint = make_endpoint()
    failing(endpoint, 5)
    moved(endpoint, 45)
    circuit_breaker.admit(endpoint, 30)
    moved(endpoint, 31)
    circuit_breaker.admit(endpoint, 30)


@pytest.mark.django_db
@pytest.mark.parametrize(("retry_after", "max_wait"), [(7_200, 7_200), (86_400_000, 86_400)])
def test_wait_that_the_vendor_asks_for_is_kept_up_to_a_day(retry_after, max_wait):
    endpoint = make_endpoint(name="Weather")
    failing(endpoint, 1, retry_after=retry_after)
    with pytest.raises(UnavailableError, match="“Weather” asked us to wait") as refused:
        circuit_breaker.admit(endpoint, 30)
    assert max_wait - 5 <= refused.value.retry_after <= max_wait
    moved(endpoint, max_wait)
    circuit_breaker.admit(endpoint, 30)
    circuit_breaker.admit(endpoint, 30)


@pytest.mark.django_db
@pytest.mark.parametrize("code", sorted(circuit_breaker.OUR_OWN_CODES))
def test_what_we_did_ourselves_is_nobodys_failure(code):
    endpoint = make_endpoint()
    for _ in range(9):
        circuit_breaker.record_run(endpoint, UnavailableError(code, "Ours."))
    circuit_breaker.admit(endpoint, 30)


@pytest.mark.django_db
def test_while_it_is_open_calls_are_answered_without_asking():
    with HostileVendor(reply(status=503)) as vendor:
        version = connect(vendor)
        for _ in range(circuit_breaker.OPENS_AFTER):
            assert call(version).outcome == "unavailable"
        request_count = len(vendor.requests)
        unsent = call(version)
        assert len(vendor.requests) == request_count
        assert (unsent.outcome, unsent.error_code) == ("unavailable", "CIRCUIT_OPEN")
        vendor.script = json_reply({"output_parameters": [{"name": "weather", "value": "fair"}]})
        moved(version.tool, 45)
        call(version)
        assert len(vendor.requests) == request_count + 1
        call(version)
        assert len(vendor.requests) == request_count + 2


@pytest.mark.django_db
def test_answer_to_a_call_says_that_the_endpoint_is_there_again():
    with HostileVendor(json_reply({"output_parameters": [{"name": "weather", "value": "fair"}]})) as vendor:
        version = connect(vendor)
        failing(version.tool.endpoint, circuit_breaker.OPENS_AFTER)
        moved(version.tool.endpoint, 45)
        for count in (1, 2, 3):
            call(version)
            assert len(vendor.requests) == count


@pytest.mark.django_db
def test_what_a_call_meets_keeps_back_that_tool_alone(designer_api):
    fair = json_reply({"output_parameters": [{"name": "weather", "value": "fair"}]})
    busy = reply(status=503, headers={"Retry-After": "3600"})
    with HostileVendor(in_turn(busy, fair)) as vendor:
        tool = connect(vendor).tool
        other = make_tool(make_signature("other"), endpoint=tool.endpoint)

        def invoke(which):
            address = f"/api/v1/tools/{which.pk}/invoke/"
            return designer_api.post(address, {"arguments": {"city": "Oslo"}}).data

        assert invoke(tool)["error"]["code"] == "HTTP_503"
        assert invoke(other)["outcome"] == "ok"
        unsent = invoke(tool)
        assert (unsent["error"]["code"], len(vendor.requests)) == ("CIRCUIT_OPEN", 2)
        assert 3_500_000 < unsent["retry"]["after_ms"] <= 3_600_000
    data = designer_api.get(f"/api/v1/tools/{tool.pk}/").data
    page = designer_api.get(f"/tools/{tool.pk}/try/").content.decode()
    assert data["unavailable_until"] is not None
    assert "Calls of this tool are not sent until" in page
    assert designer_api.get(f"/api/v1/tools/{other.pk}/").data["unavailable_until"] is None
    assert designer_api.get(f"/api/v1/endpoints/{tool.endpoint_id}/").data["unavailable_until"] is None
    Endpoint.objects.update(next_due_at=timezone.now() - timedelta(seconds=5))
    schedule.tick()
    assert Run.objects.filter(endpoint=tool.endpoint, trigger=Trigger.SCHEDULE).exists()


@pytest.mark.django_db
def test_reading_that_is_told_to_wait_keeps_back_readings_and_all_calls():
    busy = reply(status=503, headers={"Retry-After": "3600"})
    with HostileVendor(busy) as vendor:
        version = connect(vendor)
        endpoint = version.tool.endpoint
        run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=make_user(Role.ADMIN))
        enumeration_runs.perform(run.pk)
        request_count = len(vendor.requests)
        assert call(version).error_code == "CIRCUIT_OPEN"
        assert len(vendor.requests) == request_count
    Endpoint.objects.update(next_due_at=timezone.now() - timedelta(seconds=5))
    schedule.tick()
    assert not Run.objects.filter(endpoint=endpoint, trigger=Trigger.SCHEDULE).exists()
    moved(endpoint, 3_600)
    schedule.tick()
    assert Run.objects.filter(endpoint=endpoint, trigger=Trigger.SCHEDULE).exists()


@pytest.mark.django_db
def test_sign_in_server_that_is_away_is_no_failure_of_the_tool():
    tool = make_tool()
    for _ in range(9):
        circuit_breaker.record_call(
            tool, Outcome("unavailable", error={"code": "TOKEN_SERVER", "message": "Away."})
        )
    circuit_breaker.admit(tool, 30)


@pytest.mark.django_db
def test_person_who_has_the_endpoint_read_ends_the_wait_of_its_tools(vendor):
    def run_enumeration(trigger):
        run = enumeration_runs.request_run(endpoint, trigger=trigger, actor=make_user(Role.ADMIN))
        assert enumeration_runs.perform(run.pk).status == RunStatus.SUCCEEDED

    endpoint = make_endpoint(url=vendor.url)
    run_enumeration(Trigger.PERSON)
    tool, elsewhere = endpoint.tools.first(), make_tool()
    for tool_row in (tool, elsewhere):
        failing(tool_row, 6)
    run_enumeration(Trigger.SCHEDULE)
    with pytest.raises(UnavailableError):
        circuit_breaker.admit(tool, 30)
    run_enumeration(Trigger.PERSON)
    circuit_breaker.admit(tool, 30)
    with pytest.raises(UnavailableError):
        circuit_breaker.admit(elsewhere, 30)


@pytest.mark.django_db
def test_person_may_ask_at_once_and_an_answer_closes_the_circuit(vendor):
    endpoint = make_endpoint(url=vendor.url)
    failing(endpoint, 6)
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=make_user(Role.ADMIN))
    assert enumeration_runs.perform(run.pk).status == RunStatus.SUCCEEDED
    circuit_breaker.admit(endpoint, 30)


@pytest.mark.django_db
def test_runs_that_are_turned_away_open_the_circuit_and_wait_longer_each_time():
    actor, waits = make_user(Role.ADMIN), []
    with HostileVendor(reply(status=503, headers={"Retry-After": "20"})) as vendor:
        endpoint = make_endpoint(url=vendor.url)
        for _ in range(circuit_breaker.OPENS_AFTER):
            run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=actor)
            assert enumeration_runs.perform(run.pk).error_code == "HTTP_503"
            endpoint.refresh_from_db()
            waits.append((endpoint.next_due_at - datetime.now(UTC)).total_seconds())
    assert waits[0] < waits[1] < waits[2] < waits[3]
    assert max(waits) <= 3_600
    with pytest.raises(UnavailableError):
        circuit_breaker.admit(endpoint, 30)


@pytest.mark.django_db
def test_new_address_starts_afresh():
    endpoint = make_endpoint()
    failing(endpoint, 6)
    vendor_operations.update_endpoint(endpoint, actor=make_user(Role.ADMIN), url="http://127.0.0.1:9/")
    circuit_breaker.admit(endpoint, 30)


def test_open_circuit_is_shown(admin_api):
    endpoint = make_endpoint()
    failing(endpoint, 5)
    data = admin_api.get(f"/api/v1/endpoints/{endpoint.pk}/").data
    assert data["unavailable_until"] is not None
    page = admin_api.get(f"/endpoints/{endpoint.pk}/").content.decode()
    assert "Calls are not sent until" in page
    assert "did not answer 5 times in a row" in page
    other = admin_api.get(f"/api/v1/endpoints/{make_endpoint().pk}/").data
    assert other["unavailable_until"] is None
