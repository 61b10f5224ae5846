"""Activities that send one HTTP request: where it can go, what it can carry, and what its reply means."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.credentials import operations as credential_operations
from catalog.models import Activity, Call, ToolVersion
from core.errors import DomainError
from execution.activities import http_request, kinds, operations
from execution.activities.conversions import UnfitValueError
from execution.activities.http_request import Template
from execution.activities.picking import Source
from execution.calls import invocation
from execution.calls.checks import ConfirmationError
from people.models import AuditEntry, Role
from protocols.signature import Annotations
from tests.factories import make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, json_reply, reply

SIGNATURE = make_signature(
    inputs=(
        make_parameter("city"),
        make_parameter("days", type="int", required=False),
        make_parameter("tags", type="json", required=False, schema={"type": "array"}),
    ),
    outputs=(make_parameter("weather"), make_parameter("degrees", type="int"), make_parameter("etag")),
)
CONFIG = {
    "address": "https://weather.example/v1/places/{city}/weather",
    "query": {"days": {"input": "days"}, "tag": {"input": "tags"}, "units": {"value": "metric"}},
    "headers": {"X-Place": {"input": "city"}},
    "outputs": {
        "weather": {"at": "/now/text"},
        "degrees": {"at": "/now/degrees"},
        "etag": {"of": "header", "header": "ETag"},
    },
}
FAIR = json_reply({"now": {"text": "fair", "degrees": "12"}, "more": [1]})


def make_interface() -> ToolVersion:
    return make_tool(SIGNATURE).current


def make_activity(address: str, role=Role.ADMIN, **changes) -> Activity:
    """Make it as an administrator, because the servers of tests are in a network that is open to vendors
    alone.
    """
    return operations.create(
        actor=make_user(role),
        name="weather",
        kind="http",
        config={**CONFIG, "address": address, **changes},
        interface=make_interface(),
    )


def call(activity: Activity, **arguments) -> Call:
    interface = activity.current.interface
    result = invocation.call_now(
        interface,
        actor=make_user(Role.DESIGNER),
        arguments={"city": "Oslo"} | arguments,
        activity=activity.current,
        is_confirmed=True,
    )
    return Call.objects.get(pk=result.pk)


@pytest.mark.django_db
def test_a_request_is_made_of_the_inputs_and_outputs_of_the_reply():
    with HostileVendor(FAIR) as vendor:
        activity = make_activity(f"{vendor.url}/v1/places/{{city}}/weather")
        result = call(activity, city="Å/b?c#d", days=2, tags=["a", "b&c"])

    (request,) = vendor.requests
    assert request.target == "/v1/places/%C3%85%2Fb%3Fc%23d/weather?days=2&tag=a&tag=b%26c&units=metric"
    assert (result.outcome, result.decoded().outputs) == ("ok", {"weather": "fair", "degrees": 12})
    assert result.decoded().attempts[0].exchanges[0].status == 200


@pytest.mark.django_db
def test_bodies_are_json_by_members_or_a_form():
    body = {"/user/name": {"input": "city"}, "user/days": {"input": "days"}, "kind": {"value": 1}}
    with HostileVendor(FAIR) as vendor:
        address = f"{vendor.url}/v1"
        activity = make_activity(address, method="POST", query={}, headers={}, body=body)
        call(activity, days=3)
        form = {"body": {"city": {"input": "city"}, "days": {"input": "days"}}, "form": "form"}
        config = {**activity.current.config, **form}
        activity = operations.change(activity, actor=make_user(Role.ADMIN), config=config)
        call(activity, city="a b&c")

    first, second = vendor.requests
    assert first.json() == {"user": {"name": "Oslo", "days": 3}, "kind": 1}
    assert (second.headers["content-type"], second.body) == (
        "application/x-www-form-urlencoded",
        b"city=a+b%26c",
    )


@pytest.mark.django_db
def test_statuses_mean_what_was_said_and_else_what_http_says():
    with HostileVendor(json_reply({"message": "No such place."}, status=404)) as vendor:
        activity = make_activity(f"{vendor.url}/{{city}}", statuses={"404": "invalid_arguments"})
        result = call(activity)
        assert (result.outcome, result.error_code) == ("invalid_arguments", "HTTP_404")
        assert "No such place." in result.decoded().error["message"]
        plain = operations.change(
            activity, actor=make_user(Role.ADMIN), config={**activity.current.config, "statuses": {}}
        )
        assert (call(plain).outcome, call(plain).error_code) == ("tool_error", "HTTP_404")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answer", "outcome", "code"),
    [
        (reply(b"", status="302 Found", headers={"Location": "http://127.0.0.1:1/"}), "refused", "REDIRECT"),
        (
            reply(b"{" + b" " * 6_000_000, headers={"Content-Type": "application/json"}),
            "tool_error",
            "BODY_TOO_LARGE",
        ),
        (reply(b"<html>", headers={"Content-Type": "text/html"}), "tool_error", None),
        (json_reply({}, status=401), "needs_authorization", "AUTH"),
        (json_reply({}, status=503), "unavailable", "HTTP_503"),
    ],
)
def test_replies_that_are_no_answer(answer, outcome, code):
    with HostileVendor(answer) as vendor:
        result = call(make_activity(f"{vendor.url}/{{city}}"))
    assert result.outcome == outcome
    assert code is None or result.error_code == code
    assert len(vendor.requests) == 1


@pytest.mark.django_db
def test_an_input_cannot_leave_its_header_or_its_segment():
    with HostileVendor(FAIR) as vendor:
        activity = make_activity(f"{vendor.url}/v1/{{city}}/weather", query={})
        injected = call(activity, city="Oslo\r\nX-Admin: yes")
        for strange in ("..", ".", "", "../../admin", "a/../b", "..\\x"):
            outcome = call(activity, city=strange)
            assert (outcome.outcome, outcome.error_code) == ("invalid_arguments", "ARGUMENTS"), strange
    assert (injected.outcome, injected.error_code) == ("refused", "HEADER")
    assert vendor.requests == []


@pytest.mark.django_db
def test_a_credential_goes_to_its_own_origin_and_is_chosen_by_administrators():
    admin = make_user(Role.ADMIN)
    with HostileVendor(FAIR) as vendor, HostileVendor(FAIR) as other:
        key = credential_operations.create_credential(
            actor=admin, name="Key", kind="bearer", url=vendor.url, secret="kAnarY-secret"
        )
        with pytest.raises(DomainError) as refused:
            make_activity(f"{vendor.url}/{{city}}", Role.DESIGNER, credential=str(key.pk))
        assert (refused.value.code, refused.value.status) == ("forbidden", 403)
        with pytest.raises(DomainError) as refused:
            make_activity(f"{other.url}/{{city}}", Role.ADMIN, credential=str(key.pk))
        assert refused.value.code == "credential_elsewhere"
        activity = make_activity(f"{vendor.url}/{{city}}", Role.ADMIN, credential=str(key.pk))
        with pytest.raises(DomainError):
            operations.change(activity, actor=make_user(Role.DESIGNER), name="mine")
        result = call(activity)
        assert vendor.requests[0].headers["authorization"] == "Bearer kAnarY-secret"
        assert "kAnarY" not in result.result
        credential_operations.remove_credential(key, actor=admin)
        removed = call(activity)
    assert (removed.outcome, removed.error_code) == ("refused", "credential_removed")
    assert (len(vendor.requests), len(other.requests)) == (1, 0)


REFUSED = [
    ({"address": "https://{city}.example/v1"}, "unfixed_host"),
    ({"address": "{city}"}, "unfixed_host"),
    ({"address": "ftp://weather.example/{city}"}, "unfixed_host"),
    ({"address": "https://weather.example/{city}?key=1"}, "invalid"),
    ({"address": "https://ada@weather.example/"}, "invalid"),
    ({"address": "https://weather.example/{nowhere}"}, "unknown_source"),
    ({"address": "https://weather.example/{days}"}, "may_be_missing"),
    ({"address": "https://weather.example/{}"}, "unclear_source"),
    ({"address": "https://[::1/{city}"}, "address_refused"),
    ({"method": "TRACE"}, "invalid"),
    ({"headers": {"Authorization": {"input": "city"}}}, "forbidden_header"),
    ({"headers": {"X-A\r\nB": {"input": "city"}}}, "forbidden_header"),
    ({"query": {"q": {"input": "gone"}}}, "unknown_source"),
    ({"body": {"a": {"value": 1}}}, "invalid"),
    ({"statuses": {"302": "ok"}}, "invalid"),
    ({"statuses": {"404": "latent"}}, "invalid"),
    ({"outputs": {"rain": {"at": "/x"}}}, "unknown_target"),
    ({"outputs": {"weather": {"at": "x"}}}, "unclear_source"),
    ({"outputs": {"weather": {"of": "header"}}}, "unclear_source"),
    ({"credential": "nothing"}, "unknown_credential"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("changes", "code"), REFUSED)
def test_what_cannot_run_is_refused_when_it_is_saved(changes, code):
    assert list(kinds.get("http").faults(CONFIG, SIGNATURE)) == []
    assert code in [fault.code for fault in kinds.get("http").faults({**CONFIG, **changes}, SIGNATURE)]


@given(st.text(max_size=40))
def test_whatever_an_input_says_the_request_stays_below_its_address(city):
    template = Template(address="https://weather.example/v1/{city}/now", query={"q": Source(input="city")})
    try:
        request = http_request.request(template, {"city": city}, (200,))
    except (UnfitValueError, UnicodeEncodeError):
        return
    before, segment, after = request.path.removeprefix("/v1/").rpartition("/now")
    assert (request.path.count("/"), segment, after) == (3, "/now", "")
    assert before.isascii()
    assert "#" not in request.query
    assert request.query.count("&") == 0


def test_json_is_written_as_it_was_given():
    template = Template(address="https://x.example/", method="POST", body={"a/b": Source(input="x")})
    request = http_request.request(template, {"x": {"y": [1, None, "é"]}}, (200,))
    assert json.loads(request.content) == {"a": {"b": {"y": [1, None, "é"]}}}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "is_destructive", "asks"),
    [
        ("GET", None, False),
        ("POST", None, True),
        ("PUT", None, True),
        ("PATCH", False, False),
        ("POST", False, False),
        ("DELETE", False, True),
    ],
)
def test_a_request_that_may_destroy_something_is_confirmed_first(method, is_destructive, asks):
    with HostileVendor(FAIR) as vendor:
        activity = make_activity(f"{vendor.url}/{{city}}", method=method, outputs={})
        sends = activity.current.interface
        step = {"activity": activity.pk, "inputs": {"city": {"input": "city"}}}
        composite = operations.create(
            actor=make_user(Role.DESIGNER),
            name="whole",
            kind="composite",
            config={"steps": [step], "outputs": {}},
            interface=sends,
        )
        signature = make_signature(
            inputs=SIGNATURE.inputs, annotations=Annotations(destructive=is_destructive)
        )
        tool = make_tool(signature).current
        for ran in (activity, composite):
            wish = {"actor": make_user(Role.DESIGNER), "arguments": {"city": "Oslo"}, "activity": ran.current}
            if asks:
                with pytest.raises(ConfirmationError, match=f"“weather” sends a request with {method}"):
                    invocation.call_now(tool, **wish)
                assert vendor.requests == []
                invocation.call_now(tool, **wish, is_confirmed=True)
            else:
                invocation.call_now(tool, **wish)
            assert vendor.requests.pop().method == method


ALONE = {"query": {}, "headers": {}, "outputs": {"weather": {"at": "/now/text"}}}


@pytest.mark.django_db
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.66", "[::ffff:127.0.0.1]"])
def test_what_a_designer_has_saved_reaches_public_addresses_alone(host):
    designer, admin = make_user(Role.DESIGNER), make_user(Role.ADMIN)
    with HostileVendor(FAIR) as vendor:
        inner = f"http://{host}:{vendor.port}/{{city}}"
        with pytest.raises(DomainError, match="An administrator may save one") as refused:
            make_activity(inner, role=Role.DESIGNER)
        assert (refused.value.code, [*refused.value.fields]) == ("address_refused", ["address"])
        # Its host is a public name; the address that it resolves to is checked when it is dialled.
        activity = make_activity(f"https://{host}:8443/{{city}}", role=Role.DESIGNER, **ALONE)
        result = call(activity)
        assert (result.outcome, result.error_code) == ("refused", "ADDRESS")
        assert "for what an administrator has saved" in result.decoded().error["message"]
        with pytest.raises(DomainError) as refused:
            operations.change(activity, actor=designer, config={**activity.current.config, "address": inner})
        assert refused.value.code == "address_refused"
    assert vendor.requests == []
    vouched = operations.change(activity, actor=admin, config=activity.current.config)
    assert (vouched.current.number, vouched.current.is_by_administrator) == (2, True)
    assert AuditEntry.objects.filter(action="edit").get().why == "As it was, by an administrator."
    assert operations.change(activity, actor=admin, config=vouched.current.config).current.number == 2


@pytest.mark.django_db
def test_what_an_administrator_has_saved_ends_with_the_next_version_of_a_designer():
    designer = make_user(Role.DESIGNER)
    with HostileVendor(FAIR) as vendor:
        activity = make_activity(f"{vendor.url}/{{city}}", **ALONE)
        assert call(activity).outcome == "ok"
        # Another name is no version, and another interface is one.
        activity = operations.change(activity, actor=designer, name="other")
        assert call(activity).outcome == "ok"
        with pytest.raises(DomainError) as refused:
            operations.change(activity, actor=designer, interface=make_tool(SIGNATURE).current)
        assert refused.value.code == "address_refused"
        assert operations.faults_now(activity) == []
        # The config of a version that was saved before versions had an author.
        old = activity.versions.create(
            number=9,
            kind="http",
            config=activity.current.config,
            interface=activity.current.interface,
            digest="0" * 64,
            created_by=designer,
        )
        Activity.objects.filter(pk=activity.pk).update(current=old)
        activity.refresh_from_db()
        assert [fault.code for fault in operations.faults_now(activity)] == ["address_refused"]
        assert (call(activity).outcome, call(activity).error_code) == ("refused", "URL")
        again = operations.change(activity, actor=make_user(Role.ADMIN), config=old.config)
        assert (call(again).outcome, len(vendor.requests)) == ("ok", 3)
