"""Bramble's walk-in clinics: clinicians, appointments, vaccinations."""

from dataclasses import dataclass
from datetime import date, timedelta

from demo.calls import CannotDoError, UnusableValueError, clock, day
from demo.invented import number, pick, today
from demo.signatures import Outputs, choice, data, text, tool, whole
from demo.stores import store_with

SLOT_TIMES = ("08:30", "09:15", "10:00", "10:45", "13:00", "13:45", "14:30", "16:15")

VISIT_TYPES = {
    "IN_PERSON": "At the clinic.",
    "VIDEO": "On a phone or computer; a link comes by email.",
}

VACCINES = {
    "INFLUENZA": "The yearly flu shot.",
    "COVID_19": "The current season's formula.",
    "TETANUS": "Tdap; due every ten years.",
}


@dataclass(frozen=True, slots=True)
class Clinician:
    id: str
    name: str
    role: str
    specialty: str
    store_id: str


CLINICIANS = (
    Clinician("C04", "Ines Okafor", "Physician", "FAMILY_MEDICINE", "OMA-1"),
    Clinician("C11", "Tom Halvorsen", "Nurse practitioner", "URGENT_CARE", "OMA-1"),
    Clinician("C15", "Mina Castellano", "Physician", "ENDOCRINOLOGY", "LNK-1"),
    Clinician("C19", "Priya Raman", "Nurse practitioner", "FAMILY_MEDICINE", "DSM-1"),
    Clinician("C22", "Adele Whitcomb", "Dermatologist", "DERMATOLOGY", "DSM-1"),
)


@dataclass(frozen=True, slots=True)
class Appointment:
    number: str
    slot_id: str
    member_id: str


def open_times(clinician: Clinician, when: date) -> list[str]:
    if when.weekday() == 6:
        return []
    return [t for t in SLOT_TIMES if number(0, 2, clinician.id, when, t)]


class Clinic:
    def __init__(self) -> None:
        self.appointments: dict[str, Appointment] = {}

    def is_free(self, slot_id: str) -> bool:
        return all(a.slot_id != slot_id for a in self.appointments.values())

    def appointment(self, wanted: str) -> Appointment:
        if wanted not in self.appointments:
            raise CannotDoError("appointment_not_found", f"There is no appointment {wanted}.")
        return self.appointments[wanted]

    def take(self, slot_id: str, key: str) -> tuple[Clinician, str]:
        """The clinician and the time of a slot that nobody else has."""
        parts = slot_id.split("/")
        found = next((c for c in CLINICIANS if c.id == parts[0]), None)
        if found is None or len(parts) != 3 or parts[2] not in open_times(found, day(parts[1], key)):
            raise UnusableValueError(key, "is not a slot that find_appointment_slots gave")
        if not self.is_free(slot_id):
            raise CannotDoError(
                "slot_taken", "Somebody else has just taken this time; please choose another."
            )
        return found, f"{parts[1]} {parts[2]}"

    @tool(
        "94c42acf-495c-453d-a260-5675c10f2b4f",
        "Clinicians who take appointments, by specialty or store.",
        tags=("appointments",),
        inputs=(
            choice(
                "specialty",
                "",
                {
                    "FAMILY_MEDICINE": "Check-ups, chronic conditions, everything that has no other place.",
                    "URGENT_CARE": "Small injuries, fever, infections.",
                    "DERMATOLOGY": "Skin.",
                },
                widened={2: {"ENDOCRINOLOGY": "Diabetes and thyroid."}},
                optional=True,
            ),
            text("store_id", optional=True),
        ),
        outputs=(data("clinicians", "Id, name, role, specialty and store."),),
    )
    def list_clinicians(self, specialty: str = "", store_id: str = "") -> Outputs:
        rows = [
            {
                "clinician_id": c.id,
                "name": c.name,
                "role": c.role,
                "specialty": c.specialty,
                "store_id": c.store_id,
            }
            for c in CLINICIANS
            if specialty in ("", c.specialty) and store_id in ("", c.store_id)
        ]
        return {"clinicians": rows}

    @tool(
        "ccf98deb-d7c7-4103-9bac-4a87122bf0da",
        "Free times of a clinician. Slots are not held: book soon after showing them.",
        tags=("appointments",),
        inputs=(
            text("clinician_id", "From list_clinicians."),
            text("from_date", "First day to look at, YYYY-MM-DD."),
            whole("days", "How many days to look at; 7 if left out.", low=1, high=28, optional=True),
        ),
        outputs=(data("slots", "slot_id and start of each, earliest first."), text("first_slot_id", since=2)),
    )
    def find_appointment_slots(self, clinician_id: str, from_date: str, days: int = 7) -> Outputs:
        found = next((c for c in CLINICIANS if c.id == clinician_id), None)
        if found is None:
            raise CannotDoError("clinician_not_found", f"There is no clinician {clinician_id}.")
        first = day(from_date, "from_date")
        dates = [first + timedelta(days=n) for n in range(days)]
        starts = [(d, t) for d in dates for t in open_times(found, d)]
        rows = [{"slot_id": f"{found.id}/{d}/{t}", "start": f"{d} {t}"} for d, t in starts]
        free = [r for r in rows if self.is_free(r["slot_id"])]
        return {"slots": free, **({"first_slot_id": free[0]["slot_id"]} if free else {})}

    @tool(
        "20b5eda9-032e-4051-8984-8f7091f4b558",
        "Books a clinic appointment. Read the clinician, day and time back to the person first.",
        tags=("appointments",),
        inputs=(
            text("slot_id", "From find_appointment_slots."),
            text("member_id", "BR- and five digits."),
            text("reason", "Why they come, in a few words. The clinician sees it.", longest=200),
            choice("visit_type", "In person if left out.", VISIT_TYPES, optional=True, since=2),
        ),
        outputs=(text("appointment_number"), text("when", "Day and local time."), text("where", since=2)),
    )
    def book_appointment(
        self,
        slot_id: str,
        member_id: str,
        reason: str,
        visit_type: str = "IN_PERSON",
        date_of_birth: str = "",
    ) -> Outputs:
        if date_of_birth and day(date_of_birth, "date_of_birth") > today():
            raise UnusableValueError("date_of_birth", "must be in the past")
        clinician, when = self.take(slot_id, "slot_id")
        booked = Appointment(f"AP-{number(10000, 99999, slot_id, member_id, reason)}", slot_id, member_id)
        self.appointments[booked.number] = booked
        where = "By video" if visit_type == "VIDEO" else store_with(clinician.store_id).address
        return {"appointment_number": booked.number, "when": when, "where": where}

    @tool(
        "209983b4-5381-4f22-a16d-06633f81ecd9",
        "Moves an appointment to another slot, with the same clinician or another one.",
        tags=("appointments",),
        inputs=(text("appointment_number"), text("new_slot_id", "From find_appointment_slots.")),
        outputs=(text("when"),),
    )
    def move_appointment(self, appointment_number: str, new_slot_id: str) -> Outputs:
        old = self.appointment(appointment_number)
        _, when = self.take(new_slot_id, "new_slot_id")
        self.appointments[old.number] = Appointment(old.number, new_slot_id, old.member_id)
        return {"when": when}

    @tool(
        "5236940e-fdb7-4856-8108-17bb4443e448",
        "Cancels an appointment. Free of charge until 24 hours before.",
        tags=("appointments",),
        inputs=(text("appointment_number"),),
        outputs=(whole("fee_cents", "0, or the late fee."),),
    )
    def cancel_appointment(self, appointment_number: str) -> Outputs:
        gone = self.appointments.pop(self.appointment(appointment_number).number)
        starts = day(gone.slot_id.split("/")[1], "appointment_number")
        return {"fee_cents": 0 if starts > today() + timedelta(days=1) else 2500}

    @tool(
        "99d3d7bb-bb9b-446b-82bf-db54c86509a8",
        "A member's coming appointments.",
        tags=("appointments", "members"),
        inputs=(text("member_id"),),
        outputs=(data("appointments"),),
    )
    def list_appointments(self, member_id: str) -> Outputs:
        own = [a for a in self.appointments.values() if a.member_id == member_id]
        return {"appointments": [{"appointment_number": a.number, "slot_id": a.slot_id} for a in own]}

    @tool(
        "f8ffe3f5-0b16-4f49-b6c3-9bab08390eed",
        "Books a vaccination at a store. Vaccinations need no clinician and are given at the counter.",
        tags=("vaccinations", "appointments"),
        inputs=(
            text("member_id"),
            text("store_id"),
            choice(
                "vaccine",
                "One per call.",
                VACCINES,
                widened={
                    2: {"SHINGLES": "Two doses, two to six months apart; from 50 years."},
                    3: {"RSV": "One dose; from 60 years, or in pregnancy.", "PNEUMOCOCCAL": "From 50 years."},
                },
            ),
            text("date", "YYYY-MM-DD"),
            text("time", "HH:MM, local time"),
            whole("dose", "Which dose of a series this is.", low=1, high=4, optional=True),
        ),
        outputs=(text("confirmation"), text("bring", "What the person should bring along.", since=3)),
    )
    def book_vaccination(
        self, member_id: str, store_id: str, vaccine: str, date: str, time: str, dose: int = 1
    ) -> Outputs:
        when, at = day(date, "date"), clock(time, "time").strftime("%H:%M")
        opens, closes = store_with(store_id).hours(when)
        if not opens <= at < closes:
            raise CannotDoError("store_closed", f"On that day the store is open from {opens} to {closes}.")
        bring = "Insurance card" if dose == 1 else "Insurance card and the record of earlier doses"
        return {"confirmation": f"VX-{number(10000, 99999, member_id, vaccine, when, at)}", "bring": bring}

    @tool(
        "75910058-ae11-4173-95ed-8e262c82d8eb",
        "Vaccinations that Bramble has given to a member.",
        tags=("vaccinations", "members"),
        inputs=(text("member_id"),),
        outputs=(data("vaccinations", "Vaccine, date and lot."), text("next_due")),
    )
    def get_vaccination_record(self, member_id: str) -> Outputs:
        given = [v for v in VACCINES if number(0, 1, member_id, v)]
        rows = [
            {"vaccine": v, "given_on": f"{today().year - 1}-10-14", "lot": f"L{number(100, 999, v)}"}
            for v in given
        ]
        return {"vaccinations": rows, "next_due": pick(tuple(VACCINES), member_id)}

    @tool(
        "476b56ef-a1c5-4c17-a4bb-6e0060e82159",
        "Dates and places of this season's flu clinics, where no appointment is needed.",
        tags=("vaccinations",),
        inputs=(whole("month", "9 to 12", low=9, high=12),),
        outputs=(data("clinics", "Date, store and hours."),),
    )
    def list_flu_clinics(self, month: int) -> Outputs:
        days = sorted({number(1, 28, month, n) for n in range(3)})
        return {
            "clinics": [
                {"date": str(date(today().year, month, d)), "store_id": "OMA-1", "hours": "10-16"}
                for d in days
            ]
        }
