"""Bramble's walk-in clinics: clinicians, appointments, vaccinations."""

from dataclasses import dataclass
from datetime import date, timedelta

from demo.calls import CannotDoError, UnusableValueError, clock, day
from demo.fake_data import number, pick, today
from demo.signatures import Outputs
from demo.stores import WORLD, store_with

RECORDS = WORLD["records"]
VACCINES = tuple(WORLD["choices"]["vaccines"])


@dataclass(frozen=True, slots=True)
class Clinician:
    id: str
    name: str
    role: str
    specialty: str
    store_id: str


CLINICIANS = [Clinician(**row) for row in RECORDS["clinicians"]]


@dataclass(frozen=True, slots=True)
class Appointment:
    number: str
    slot_id: str
    member_id: str


def open_times(clinician: Clinician, when: date) -> list[str]:
    if when.weekday() == 6:
        return []
    return [t for t in RECORDS["slot_times"] if number(0, 2, clinician.id, when, t)]


class Clinic:
    def __init__(self) -> None:
        self.appointments: dict[str, Appointment] = {}

    def is_free(self, slot_id: str) -> bool:
        return all(a.slot_id != slot_id for a in self.appointments.values())

    def appointment(self, appointment_id: str) -> Appointment:
        if appointment_id not in self.appointments:
            raise CannotDoError("appointment_not_found", f"There is no appointment {appointment_id}.")
        return self.appointments[appointment_id]

    def take(self, slot_id: str, key: str) -> tuple[Clinician, str]:
        """The clinician and the time of a free slot."""
        parts = slot_id.split("/")
        clinician = next((c for c in CLINICIANS if c.id == parts[0]), None)
        if clinician is None or len(parts) != 3 or parts[2] not in open_times(clinician, day(parts[1], key)):
            raise UnusableValueError(key, "is not a slot that find_appointment_slots gave")
        if not self.is_free(slot_id):
            raise CannotDoError("slot_taken", "This time has just been taken; please choose another.")
        return clinician, f"{parts[1]} {parts[2]}"

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

    def find_appointment_slots(self, clinician_id: str, from_date: str, days: int = 7) -> Outputs:
        clinician = next((c for c in CLINICIANS if c.id == clinician_id), None)
        if clinician is None:
            raise CannotDoError("clinician_not_found", f"There is no clinician {clinician_id}.")
        first = day(from_date, "from_date")
        dates = [first + timedelta(days=n) for n in range(days)]
        starts = [(d, t) for d in dates for t in open_times(clinician, d)]
        rows = [{"slot_id": f"{clinician.id}/{d}/{t}", "start": f"{d} {t}"} for d, t in starts]
        free = [r for r in rows if self.is_free(r["slot_id"])]
        return {"slots": free, **({"first_slot_id": free[0]["slot_id"]} if free else {})}

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

    def move_appointment(self, appointment_number: str, new_slot_id: str) -> Outputs:
        old = self.appointment(appointment_number)
        _, when = self.take(new_slot_id, "new_slot_id")
        self.appointments[old.number] = Appointment(old.number, new_slot_id, old.member_id)
        return {"when": when}

    def cancel_appointment(self, appointment_number: str) -> Outputs:
        cancelled = self.appointments.pop(self.appointment(appointment_number).number)
        starts = day(cancelled.slot_id.split("/")[1], "appointment_number")
        return {"fee_cents": 0 if starts > today() + timedelta(days=1) else 2500}

    def list_appointments(self, member_id: str) -> Outputs:
        appointments = [a for a in self.appointments.values() if a.member_id == member_id]
        return {
            "appointments": [{"appointment_number": a.number, "slot_id": a.slot_id} for a in appointments]
        }

    def book_vaccination(
        self, member_id: str, store_id: str, vaccine: str, date: str, time: str, dose: int = 1
    ) -> Outputs:
        when, start_time = day(date, "date"), clock(time, "time").strftime("%H:%M")
        opens, closes = store_with(store_id).hours(when)
        if not opens <= start_time < closes:
            raise CannotDoError("store_closed", f"On that day the store is open from {opens} to {closes}.")
        bring = "Insurance card" if dose == 1 else "Insurance card and the record of earlier doses"
        return {
            "confirmation": f"VX-{number(10000, 99999, member_id, vaccine, when, start_time)}",
            "bring": bring,
        }

    def get_vaccination_record(self, member_id: str) -> Outputs:
        vaccines = [v for v in VACCINES if number(0, 1, member_id, v)]
        rows = [
            {"vaccine": v, "given_on": f"{today().year - 1}-10-14", "lot": f"L{number(100, 999, v)}"}
            for v in vaccines
        ]
        return {"vaccinations": rows, "next_due": pick(VACCINES, member_id)}

    def list_flu_clinics(self, month: int) -> Outputs:
        days = sorted({number(1, 28, month, n) for n in range(3)})
        return {
            "clinics": [
                {"date": str(date(today().year, month, d)), "store_id": "OMA-1", "hours": "10-16"}
                for d in days
            ]
        }
