"""Activities over REST: saved, changed, proposed and run; and limits of a proposal, for any signatures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.models import ToolVersion
from demo.mail import Larkspur, Pennypost
from execution.activities import conversions, mapping, picking
from execution.activities.conversions import UnfitValueError
from people.models import Role
from tests.clients import signed_in
from tests.execution.activities.test_steps import FAIR, make_version
from tests.factories import make_parameter, make_signature, make_tool
from tests.hostile_vendor import HostileVendor

API = "/api/v1/activities/"


def body(interface: ToolVersion, other: ToolVersion) -> dict:
    step = {"tool": other.tool_id, "ordinal": other.ordinal, "inputs": {"city": {"input": "place"}}}
    return {
        "name": "weather elsewhere",
        "kind": "vendor",
        "interface": {"tool": interface.tool_id, "ordinal": interface.ordinal},
        "config": {"steps": [step], "outputs": {"sky": {"step": 1, "output": "weather"}}},
    }


@pytest.mark.django_db
def test_an_activity_is_saved_run_changed_and_removed(designer_api):
    with HostileVendor(FAIR) as vendor:
        interface, other = (
            make_version("http://127.0.0.1:9", "place", "sky"),
            make_version(vendor.url, "city", "weather"),
        )
        response = designer_api.post(API, body(interface, other), format="json")
        assert response.status_code == 201, response.json()
        activity = response.json()
        assert (activity["version"], activity["faults"], activity["used_by"]) == (1, [], [])
        call = {"arguments": {"place": "Oslo"}, "activity": activity["id"]}
        ran = designer_api.post(f"/api/v1/tools/{interface.tool_id}/invoke/", call, format="json").json()
        assert (ran["outcome"], ran["outputs"]) == ("ok", {"sky": "fair"})
        missing = designer_api.post(
            f"/api/v1/tools/{interface.tool_id}/invoke/", {**call, "activity": 10**9}, format="json"
        )
        assert (missing.status_code, missing.json()["code"]) == (400, "invalid")

    one = f"{API}{activity['id']}/"
    stale = response["ETag"]
    config = {**activity["config"], "outputs": {}}
    changed = designer_api.patch(one, {"config": config}, format="json", headers={"If-Match": stale})
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    late = designer_api.patch(one, {"name": "other"}, format="json", headers={"If-Match": stale})
    assert (late.status_code, late.json()["code"]) == (409, "changed_meanwhile")
    versions = designer_api.get(f"{one}versions/").json()["results"]
    assert [version["number"] for version in versions] == [2, 1]
    assert designer_api.get(API).json()["results"][0]["name"] == "weather elsewhere"
    assert designer_api.delete(one).status_code == 204
    assert designer_api.get(one).status_code == 404


@pytest.mark.django_db
def test_what_cannot_run_is_refused_with_a_code_and_a_place(designer_api):
    interface = make_version("http://127.0.0.1:9", "place", "sky")
    other = make_version("http://127.0.0.1:9", "city", "weather")
    payload = body(interface, other)
    payload["config"]["steps"][0]["inputs"] = {"city": {"input": "town"}}
    refused = designer_api.post(API, payload, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "unknown_source")
    assert refused.json()["fields"].keys() == {"steps.1.inputs.city"}
    without_interface = body(interface, other) | {"interface": {"tool": interface.tool_id, "ordinal": 9}}
    assert designer_api.post(API, without_interface, format="json").json()["code"] == "invalid"
    assert signed_in(Role.VIEWER).post(API, payload, format="json").status_code == 403


@pytest.mark.django_db
def test_an_input_that_is_gone_from_the_interface_is_named(designer_api):
    interface = make_version("http://127.0.0.1:9", "place", "sky")
    created = designer_api.post(
        API, body(interface, make_version("http://127.0.0.1:9", "city", "weather")), format="json"
    ).json()
    newer = make_version("http://127.0.0.1:9", "town", "sky")
    type(interface.tool).objects.filter(pk=interface.tool_id).update(current=newer)
    (fault,) = designer_api.get(f"{API}{created['id']}/").json()["faults"]
    assert (fault["place"], fault["code"]) == ("steps.1.inputs.city", "unknown_source")
    assert "“place”" in fault["message"]


def mail_version(vendor: type, tool: str) -> ToolVersion:
    declared = vendor.world["tools"][tool]

    def parameters(declarations: list[dict]) -> tuple:
        return tuple(
            make_parameter(
                declaration["name"],
                type=declaration["type"],
                required=not declaration.get("optional"),
                description=declaration["description"],
            )
            for declaration in declarations
        )

    signature = make_signature(
        tool, inputs=parameters(declared["inputs"]), outputs=parameters(declared["outputs"])
    )
    return make_tool(signature).current


@pytest.mark.django_db
def test_another_mail_vendor_is_proposed_completed_and_saved(designer_api):
    penny, lark = mail_version(Pennypost, "deliver_message"), mail_version(Larkspur, "send_note")
    payload = {
        "interface": {"tool": penny.tool_id, "ordinal": penny.ordinal},
        "tool": {"tool": lark.tool_id, "ordinal": lark.ordinal},
    }
    proposal = designer_api.post(f"{API}propose/", payload, format="json").json()
    inputs = proposal["config"]["steps"][0]["inputs"]
    assert {name: source["input"] for name, source in inputs.items()} == {
        "email_address": "To",
        "title": "Heading",
        "message": "Text",
    }
    assert {name: output["output"] for name, output in proposal["config"]["outputs"].items()} == {
        "Accepted": "sent",
        "Message number": "note_id",
    }
    assert (proposal["unused"], proposal["lacking"]) == (["Reply to"], [])
    # “Text” may be left out by a caller, and “message” is required: that is for a person to decide.
    assert [(gap["place"], gap["code"]) for gap in proposal["gaps"]] == [
        ("steps.1.inputs.message", "may_be_missing")
    ]
    saved = {"name": "by Larkspur", "kind": "vendor", "interface": payload["interface"]}
    config = proposal["config"]
    assert designer_api.post(API, saved | {"config": config}, format="json").status_code == 400
    config["steps"][0]["inputs"]["message"]["otherwise"] = ""
    assert designer_api.post(API, saved | {"config": config}, format="json").status_code == 201


def test_gaps_name_what_has_no_source_and_what_cannot_be_converted():
    interface = make_signature(
        inputs=(make_parameter("city"), make_parameter("tags", type="json", schema={"type": "array"})),
        outputs=(make_parameter("weather"), make_parameter("wind")),
    )
    other = make_signature(
        "sky_over",
        inputs=(
            make_parameter("place"),
            make_parameter("tags", type="int"),
            make_parameter("altitude", type="number"),
        ),
        outputs=(make_parameter("weather"),),
    )
    proposal = mapping.propose(interface, other)
    assert [(pair.of, pair.to) for pair in proposal.pairs] == [("city", "place"), ("weather", "weather")]
    assert {gap.place.rpartition(".")[2]: gap.code for gap in proposal.gaps} == {
        "tags": "unfit_type",
        "altitude": "missing_input",
    }
    assert (proposal.unused, proposal.lacking) == (("tags",), ("wind",))


PARAMETERS = st.builds(
    make_parameter,
    st.sampled_from(["city", "To", "body text", "id", "ö", "limit", "when"]),
    type=st.sampled_from(["string", "int", "number", "boolean", "enum", "json"]),
    required=st.booleans(),
)
SIGNATURES = st.lists(PARAMETERS, max_size=4, unique_by=lambda parameter: parameter.name).map(
    lambda inputs: make_signature(inputs=tuple(inputs), outputs=tuple(inputs))
)


@given(SIGNATURES, SIGNATURES)
def test_a_proposal_pairs_each_once_and_whatever_stands_against_it_is_a_gap(interface, other):
    proposal = mapping.propose(interface, other)
    sources = [source.input for source in proposal.inputs.values()]
    assert len(sources) == len(set(sources))
    reach = picking.Reach({parameter.name: parameter for parameter in interface.inputs}, ())
    faults = list(picking.faults_in_inputs("steps.1.inputs", proposal.inputs, other, reach))
    assert [fault.place for fault in faults] == [gap.place for gap in proposal.gaps]
    assert mapping.propose(interface, interface).gaps == ()


VALUES = st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.lists(st.integers()))
KINDS = {"string": str, "enum": str, "boolean": bool, "int": int, "number": (int, float)}


@given(VALUES, st.sampled_from(list(KINDS)))
def test_a_converted_value_has_the_type_that_is_wanted_and_stays_so(value, type_):
    target = make_parameter("x", type=type_)
    try:
        converted = conversions.convert_value(value, target)
    except UnfitValueError:
        return
    assert isinstance(converted, KINDS[type_])
    assert isinstance(converted, bool) == (type_ == "boolean")
    assert conversions.convert_value(converted, target) == converted or converted != converted


@given(st.sampled_from(list(KINDS)), st.sampled_from(list(KINDS)), VALUES)
def test_what_is_said_never_to_fit_does_not(given_type, target_type, value):
    source, target = make_parameter("a", type=given_type), make_parameter("b", type=target_type)
    if conversions.conversion_fit(source, target) != "no" or not isinstance(value, KINDS[given_type]):
        return
    if isinstance(value, bool) == (given_type == "boolean"):
        with pytest.raises(UnfitValueError):
            conversions.convert_value(value, target)
