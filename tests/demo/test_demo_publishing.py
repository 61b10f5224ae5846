import json

import pytest

from demo import VENDORS
from demo.__main__ import published_tools_of
from demo.published_tools import StateFileError

REFILL = {"prescription_number": "7043118", "store_id": "OMA-1"}


def publish(client, times=1):
    return [client.post("/demo/publish") for _ in range(times)][-1]


def inputs(signature):
    return {p["name"]: p for p in signature["input_parameters"]}


def test_first_a_tool_gains_an_optional_input(pharmacy):
    before = pharmacy.tool("refill_prescription")
    answer = publish(pharmacy)
    after = pharmacy.tool("refill_prescription")
    assert answer["news"].startswith("Version 4 of refill_prescription")
    assert (before["version"], after["version"]) == (3, 4)
    assert inputs(after).keys() - inputs(before).keys() == {"pickup_method"}
    assert inputs(after)["pickup_method"]["required"] is False


def test_the_version_before_stays_as_it_was(pharmacy):
    before = pharmacy.tool("refill_prescription")
    publish(pharmacy)
    old_version = pharmacy.get(f"/tools/{before['toolId']}/versions/3")
    assert old_version == before | {"currentVersion": 4}
    assert "refill_number" in pharmacy.invoke("refill_prescription", REFILL, version=3)


def test_the_new_input_is_used(pharmacy):
    publish(pharmacy)
    refill = REFILL | {"pickup_method": "DRIVE_THROUGH"}
    assert "ready_on" in pharmacy.invoke("refill_prescription", refill)
    refused = pharmacy.invoke("refill_prescription", refill | {"store_id": "OMA-2"})
    assert refused["fields"] == {"pickup_method": "Bramble Old Market has no drive-through"}


def test_then_a_tool_breaks_its_promise(pharmacy):
    before = pharmacy.tool("book_appointment")
    publish(pharmacy, 2)
    after = pharmacy.tool("book_appointment")
    assert after["version"] == before["version"] + 1
    assert inputs(after)["slot"]["id"] == inputs(before)["slot_id"]["id"]
    assert inputs(after)["date_of_birth"]["required"] is True


def test_the_broken_version_wants_the_new_names_and_the_old_one_the_old(pharmacy):
    publish(pharmacy, 2)
    slots = pharmacy.invoke("find_appointment_slots", {"clinician_id": "C04", "from_date": "2027-03-01"})[
        "slots"
    ]
    old = {"slot_id": slots[0]["slot_id"], "member_id": "BR-20418", "reason": "Sore throat"}
    assert pharmacy.invoke("book_appointment", old)["fields"].keys() == {"slot", "date_of_birth", "slot_id"}
    assert "where" in pharmacy.invoke("book_appointment", old, version=2)
    new = old | {"slot": slots[1]["slot_id"], "date_of_birth": "1980-05-17"}
    del new["slot_id"]
    assert "where" in pharmacy.invoke("book_appointment", new)


def test_then_a_version_changes_in_place(pharmacy):
    before = pharmacy.tool("check_drug_interactions")
    publish(pharmacy, 3)
    after = pharmacy.tool("check_drug_interactions")
    assert after["version"] == before["version"]
    assert after["description"] != before["description"]
    assert after["output_parameters"] != before["output_parameters"]


def test_last_a_tool_is_withdrawn(pharmacy):
    withdrawn = pharmacy.tool("list_flu_clinics")
    count = len(pharmacy.tools())
    publish(pharmacy, 4)
    assert len(pharmacy.tools()) == count - 1
    assert pharmacy.get(f"/tools/{withdrawn['toolId']}")["code"] == "tool_not_found"


def test_each_step_touches_one_tool_only(pharmacy):
    before = pharmacy.tools()
    for name in ("refill_prescription", "book_appointment", "check_drug_interactions", "list_flu_clinics"):
        publish(pharmacy)
        after = pharmacy.tools()
        assert {t["name"] for t in before if t not in after} == {name}
        before = after


def test_after_the_last_step_it_says_that_it_is_done(pharmacy):
    answer = publish(pharmacy, 5)
    assert answer["news"].startswith("Everything has been published")
    assert (answer["published"], answer["remaining"]) == (4, 0)
    assert "Start over" in pharmacy.send("GET", "/").decode()


def test_starting_over_brings_back_the_first_tools(pharmacy):
    before = pharmacy.tools()
    publish(pharmacy, 4)
    assert pharmacy.post("/demo/reset")["remaining"] == 4
    assert pharmacy.tools() == before


def test_the_button_leads_back_to_the_page_which_tells_the_news(pharmacy):
    pharmacy.send("POST", "/demo/publish", headers={"Accept": "text/html"})
    assert (pharmacy.status, pharmacy.headers["Location"]) == (303, "/")
    assert "Version 4 of refill_prescription" in pharmacy.send("GET", "/").decode()


def test_a_page_elsewhere_cannot_press_the_button(pharmacy):
    assert (
        pharmacy.post("/demo/publish", headers={"Origin": "https://elsewhere.example"})["code"]
        == "other_site"
    )
    assert pharmacy.tool("refill_prescription")["version"] == 3


def test_a_vendor_without_news_has_no_button(travel):
    assert travel.post("/demo/publish")["code"] == "not_found"


def test_what_was_published_survives_a_restart(tmp_path):
    published_tools_of(VENDORS[0], tmp_path).publish()
    again = published_tools_of(VENDORS[0], tmp_path)
    assert again.steps_taken == 1
    assert again.publish().startswith("Version 3 of book_appointment")


def test_starting_over_survives_a_restart(tmp_path):
    published = published_tools_of(VENDORS[0], tmp_path)
    published.publish()
    published.start_over()
    assert published_tools_of(VENDORS[0], tmp_path).steps_taken == 0


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", json.dumps({"published": 9}), json.dumps({"published": True})]
)
def test_a_damaged_state_file_is_named(tmp_path, content):
    (tmp_path / "bramble-pharmacy.json").write_text(content)
    with pytest.raises(StateFileError, match=r"bramble-pharmacy\.json.*delete it to start over"):
        published_tools_of(VENDORS[0], tmp_path)
