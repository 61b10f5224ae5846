import json
from datetime import timedelta

import pytest

from demo import VENDORS
from demo.__main__ import published_tools_of
from demo.a2t_server import A2tApi, DemoRequest
from demo.fake_data import today

COMING = "2031-03-11"
WORDS = {
    "member_id": "BR-20418",
    "prescription_number": "7043118",
    "store_id": "OMA-1",
    "clinician_id": "C04",
    "other_pharmacy_phone": "(402) 555-0142",
    "medicines": "lisinopril, spironolactone",
    "date": COMING,
    "To": "ada@example.com",
    "Address": "ada@example.com",
    "Reply to": "desk@example.com",
    "from_date": COMING,
    "time": "10:30",
    "Date": str(today() - timedelta(days=400)),
    "Time": "15:00",
    "Alert id": "NE-26005-1",
    "origin": "OMA",
    "destination": "ORD",
    "departure_date": str(today()),
    "new_date": str(today() + timedelta(days=3)),
    "city": "Chicago",
    "hotelId": "CHI-LOOP",
    "checkIn": COMING,
    "checkOut": "2031-03-14",
    "last_name": "Lind",
    "seat": "12C",
}

# Outputs that an answer may lack: the others are in every answer.
SOMETIMES = {
    "Station",
    "Nearest in miles",
    "Minutes until change",
    "valid_until",
    "gate",
    "nearest_store_id",
    "opens_at",
    "closes_at",
}


class Visit:
    """A fresh vendor with one refill, appointment, flight and stay already made."""

    def __init__(self, vendor):
        self.api = A2tApi(vendor, published_tools_of(vendor, None))
        self.tools = {t.name: t for t in self.api.published_tools.tools.values()}
        self.words = dict(WORDS)
        for name in (
            "refill_prescription",
            "find_appointment_slots",
            "search_flights",
            "book_room",
            "deliver_message",
        ):
            if name in self.tools:
                self.remember(self.answer(name)[1])
        for name in ("book_appointment", "find_appointment_slots", "book_flight", "check_in"):
            if name in self.tools:
                self.remember(self.answer(name)[1])

    def remember(self, outputs):
        self.words |= {n: v for n, v in outputs.items() if isinstance(v, str)}
        if "slots" in outputs:
            self.words |= {
                "slot_id": outputs["slots"][0]["slot_id"],
                "new_slot_id": outputs["slots"][1]["slot_id"],
            }
        if "offers" in outputs:
            self.words["offer_id"] = outputs["offers"][0]["offer_id"]

    def value(self, parameter):
        if parameter.type == "enum":
            return parameter.choices[-1].name
        plain = {"int": parameter.low or 1, "boolean": True}
        return plain.get(parameter.type) or self.words.get(parameter.name, "Omaha")

    def answer(self, name, version=None, optional=False):
        tool = self.tools[name]
        edition = tool.editions[version - 1 if version else -1]
        input_parameters = [
            {"name": p.name, "value": self.value(p)} for p in edition.inputs if p.required or optional
        ]
        body = json.dumps({"name": name, "input_parameters": input_parameters}).encode()
        path = f"/tools/{tool.id}/versions/{version}:invoke" if version else f"/tools/{tool.id}:invoke"
        response = self.api.answer(DemoRequest("POST", path, {}, {}, body))
        document = json.loads(response.body)
        return response.status, {
            o["name"]: o["value"] for o in document.get("output_parameters", [])
        } or document


def calls(vendor):
    names = {t.name: t.current_version for t in published_tools_of(vendor, None).tools.values()}
    return [
        (name, v, optional)
        for name, n in names.items()
        for v in range(1, n + 1)
        for optional in (False, True)
    ]


def fits(value, parameter):
    if parameter.type == "enum":
        return value in {c.name for c in parameter.choices}
    return type(value) in {"int": (int,), "boolean": (bool,), "json": (list, dict)}.get(
        parameter.type, (str,)
    )


def test_every_version_answers_with_its_own_outputs_only(vendor):
    for name, version, optional in calls(vendor):
        visit = Visit(vendor)
        status, outputs = visit.answer(name, version, optional)
        declared = {p.name: p for p in visit.tools[name].editions[version - 1].outputs}
        assert status == 200, (name, version, outputs)
        assert declared.keys() - SOMETIMES <= outputs.keys() <= declared.keys(), (name, version)
        assert all(fits(value, declared[n]) for n, value in outputs.items()), (name, version, outputs)


def test_the_same_question_gets_the_same_answer(vendor):
    first, second = Visit(vendor), Visit(vendor)
    assert [first.answer(n) for n in first.tools] == [second.answer(n) for n in second.tools]


def test_a_call_without_version_runs_the_current_one(pharmacy):
    current = pharmacy.invoke("refill_prescription", {"prescription_number": "7043118", "store_id": "OMA-1"})
    old = pharmacy.invoke(
        "refill_prescription", {"prescription_number": "7043119", "store_id": "OMA-1"}, version=1
    )
    assert current.keys() - old.keys() == {"copay_cents"}


def test_a_parameter_may_have_spaces_in_its_name():
    visit = Visit(VENDORS[1])
    assert isinstance(visit.answer("lookup_current_weather")[1]["Temperature in Fahrenheit"], int)


def test_everything_wrong_with_the_arguments_is_said_at_once(pharmacy):
    answer = pharmacy.invoke("check_prescription_price", {"quantity": 0, "strength": 5, "colour": "blue"})
    assert pharmacy.status == 400
    assert answer["code"] == "invalid_arguments"
    assert answer["fields"] == {
        "drug_name": "is required",
        "quantity": "must be at least 1",
        "strength": "must be text",
        "colour": "is not an input of this tool",
    }


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"quantity": 361}, "must be at most 360"),
        ({"quantity": True}, "must be a whole number"),
        ({"quantity": "30"}, "must be a whole number"),
        ({"quantity": 30.0}, "must be a whole number"),
        ({"quantity": None}, "must be a whole number"),
    ],
)
def test_a_number_must_be_one_and_in_its_range(pharmacy, arguments, reason):
    answer = pharmacy.invoke("check_prescription_price", {"drug_name": "Metformin"} | arguments)
    assert answer["fields"] == {"quantity": reason}


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("get_prescription", {"prescription_number": "70431180"}, "must be at most 7 characters"),
        ("get_prescription", {"prescription_number": " "}, "must not be empty"),
        ("get_refill_status", {"refill_number": 7043118}, "must be text"),
        ("list_appointments", {"member_id": None}, "must be text"),
        ("list_flu_clinics", {"month": 8}, "must be at least 9"),
        ("ask_pharmacist", {"call_back": "NIGHT"}, "must be one of MORNING, AFTERNOON, EVENING"),
    ],
)
def test_a_value_that_does_not_fit_is_named(pharmacy, name, arguments, reason):
    assert pharmacy.invoke(name, arguments)["fields"].items() >= dict.fromkeys(arguments, reason).items()


@pytest.mark.parametrize(
    ("date", "reason"),
    [
        ("soon", "must be a date such as 2027-03-09"),
        ("2027-02-30", "must be a date such as 2027-03-09"),
        ("9999-12-31", "must be a date from 1900 to 2199"),
    ],
)
def test_a_date_must_exist(pharmacy, date, reason):
    assert pharmacy.invoke("get_store_hours", {"store_id": "OMA-1", "date": date})["fields"] == {
        "date": reason
    }


def test_a_choice_that_came_later_is_not_for_older_versions(pharmacy):
    arguments = {"near": "Omaha", "service": "COMPOUNDING"}
    assert pharmacy.invoke("find_stores", arguments, version=1)["fields"].keys() == {"service"}
    assert pharmacy.invoke("find_stores", arguments, version=2)["nearest_store_id"] == "OMA-2"


def test_what_cannot_be_done_is_told_apart_from_a_bad_request(pharmacy):
    answer = pharmacy.invoke("get_prescription", {"prescription_number": "1111111"})
    assert (pharmacy.status, answer["code"]) == (422, "prescription_not_found")
    assert "fields" not in answer


def test_a_refill_uses_up_one_and_cancelling_gives_it_back(pharmacy):
    def refills_left():
        return pharmacy.invoke("get_prescription", {"prescription_number": "7043118"})["refills_left"]

    refill = pharmacy.invoke("refill_prescription", {"prescription_number": "7043118", "store_id": "OMA-1"})
    assert refills_left() == 2
    number = {"refill_number": refill["refill_number"]}
    assert pharmacy.invoke("get_refill_status", number)["status"] == "IN_PROGRESS"
    pharmacy.invoke("cancel_refill", number)
    assert pharmacy.invoke("get_refill_status", number)["status"] == "CANCELLED"
    assert refills_left() == 3


def test_a_slot_is_given_to_one_person(pharmacy):
    looked = {"clinician_id": "C11", "from_date": COMING}
    slot = pharmacy.invoke("find_appointment_slots", looked)["first_slot_id"]
    booking = {"slot_id": slot, "member_id": "BR-20418", "reason": "Flu"}
    appointment = pharmacy.invoke("book_appointment", booking)["appointment_number"]
    assert pharmacy.invoke("book_appointment", booking | {"member_id": "BR-31177"})["code"] == "slot_taken"
    assert pharmacy.invoke("find_appointment_slots", looked)["first_slot_id"] != slot
    pharmacy.invoke("cancel_appointment", {"appointment_number": appointment})
    assert pharmacy.invoke("find_appointment_slots", looked)["first_slot_id"] == slot


def test_a_cancelled_flight_is_gone():
    visit = Visit(VENDORS[2])
    assert visit.answer("cancel_flight")[1]["refund_cents"] > 0
    assert visit.answer("get_flight_booking") == (
        422,
        {"code": "booking_not_found", "message": "No booking has this reference and last name."},
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"name": "get_prescription"}',
        b'{"name": "get_prescription", "input_parameters": {"a": 1}}',
        b'{"name": "get_prescription", "input_parameters": [{"name": "a"}]}',
        b"[" * 60_000,
        b"\xff\xfe",
    ],
)
def test_a_body_of_another_form_is_refused(pharmacy, body):
    tool_id = pharmacy.tool("get_prescription")["toolId"]
    assert pharmacy.post(f"/tools/{tool_id}:invoke", body=body)["code"] == "bad_request"
    assert pharmacy.status == 400


def test_the_wrong_name_is_refused(pharmacy):
    tool_id = pharmacy.tool("get_prescription")["toolId"]
    answer = pharmacy.post(f"/tools/{tool_id}:invoke", {"name": "refill", "input_parameters": []})
    assert answer["code"] == "wrong_name"


def test_an_argument_given_twice_is_refused(pharmacy):
    tool_id = pharmacy.tool("get_prescription")["toolId"]
    twice = [{"name": "prescription_number", "value": "7043118"}] * 2
    answer = pharmacy.post(
        f"/tools/{tool_id}:invoke", {"name": "get_prescription", "input_parameters": twice}
    )
    assert answer["fields"] == {"prescription_number": "is given twice"}


def test_a_body_that_is_too_long_is_not_read(pharmacy):
    assert pharmacy.post("/tools/x:invoke", headers={"Content-Length": "900000"})["code"] == "bad_length"
    assert pharmacy.status == 413


def test_a_lone_surrogate_does_no_harm(pharmacy):
    assert pharmacy.invoke("get_loyalty_balance", {"member_id": "\ud800"})["points"] >= 0
