"""Bramble Pharmacy: prescriptions, prices, safety. Stores are in stores.py, clinic visits in clinic.py."""

from dataclasses import dataclass
from datetime import date, timedelta

from demo.calls import CannotDoError, UnusableValueError
from demo.clinic import Clinic
from demo.fake_data import number, pick, today
from demo.signatures import Outputs
from demo.stores import WORLD, Stores, store_with


@dataclass(frozen=True, slots=True)
class Prescription:
    number: str
    member_id: str
    drug: str
    strength: str
    prescriber: str
    refills: int
    expires_in_days: int
    copay_cents: int

    @property
    def expires_on(self) -> date:
        return today() + timedelta(days=self.expires_in_days)


PRESCRIPTIONS = [Prescription(**row) for row in WORLD["records"]["prescriptions"]]
# Every pair that is not here is answered with NONE_KNOWN.
INTERACTIONS = {
    frozenset(row["medicines"]): (row["severity"], row["explanation"])
    for row in WORLD["records"]["interactions"]
}


class BramblePharmacy(Stores, Clinic):
    def __init__(self) -> None:
        super().__init__()
        self.refills: dict[str, str] = {}
        self.cancelled: set[str] = set()

    def prescription(self, number: str) -> Prescription:
        match = next((p for p in PRESCRIPTIONS if p.number == number), None)
        if match is None:
            raise CannotDoError(
                "prescription_not_found", f"We hold no prescription with the number {number}."
            )
        return match

    def refills_left(self, prescription: Prescription) -> int:
        used = [n for n, rx in self.refills.items() if rx == prescription.number and n not in self.cancelled]
        return max(0, prescription.refills - len(used))

    def refill(self, number: str) -> Prescription:
        if number not in self.refills:
            raise CannotDoError("refill_not_found", f"There is no refill request {number}.")
        return self.prescription(self.refills[number])

    def list_prescriptions(self, member_id: str, include_expired: bool = False) -> Outputs:
        prescriptions = [
            p
            for p in PRESCRIPTIONS
            if p.member_id == member_id and (include_expired or p.expires_in_days >= 0)
        ]
        rows = [
            {"number": p.number, "drug": p.drug, "strength": p.strength, "refills_left": self.refills_left(p)}
            for p in prescriptions
        ]
        return {"prescriptions": rows, "count": len(rows)}

    def get_prescription(self, prescription_number: str) -> Outputs:
        row = self.prescription(prescription_number)
        refills_left = self.refills_left(row)
        expired = row.expires_on < today()
        return {
            "drug": row.drug,
            "strength": row.strength,
            "prescriber": row.prescriber,
            "refills_left": refills_left,
            "expires_on": row.expires_on.isoformat(),
            "status": "EXPIRED" if expired else "ACTIVE" if refills_left else "NO_REFILLS",
        }

    def refill_prescription(
        self,
        prescription_number: str,
        store_id: str,
        notify_by: str = "",
        pickup_method: str = "COUNTER",
    ) -> Outputs:
        row, store = self.prescription(prescription_number), store_with(store_id)
        if row.expires_on < today():
            raise CannotDoError(
                "prescription_expired", f"Prescription {row.number} expired on {row.expires_on}."
            )
        if pickup_method == "DRIVE_THROUGH" and "DRIVE_THROUGH" not in store.services:
            raise UnusableValueError("pickup_method", f"{store.name} has no drive-through")
        refill_number = f"RF-{row.number}-{len(self.refills) + 1}"
        days = 1 if self.refills_left(row) else 3
        self.refills[refill_number] = row.number
        ready_on = today() + timedelta(days=days)
        return {
            "refill_number": refill_number,
            "ready_on": ready_on.isoformat(),
            "copay_cents": row.copay_cents,
        }

    def get_refill_status(self, refill_number: str) -> Outputs:
        refill = self.refill(refill_number)
        status = "CANCELLED" if refill_number in self.cancelled else "IN_PROGRESS"
        return {"status": status, "drug": refill.drug}

    def cancel_refill(self, refill_number: str) -> Outputs:
        self.refill(refill_number)
        self.cancelled.add(refill_number)
        return {"cancelled": True}

    def set_automatic_refill(self, prescription_number: str, enabled: bool, days_before: int = 5) -> Outputs:
        drug = self.prescription(prescription_number).drug
        start = f"We will start filling {drug} {days_before} days before it runs out."
        return {"message": start if enabled else f"{drug} is no longer refilled automatically."}

    def transfer_prescription(
        self,
        member_id: str,
        drug_name: str,
        other_pharmacy_name: str,
        other_pharmacy_phone: str,
        store_id: str,
        other_rx_number: str = "",
    ) -> Outputs:
        if sum(c.isdigit() for c in other_pharmacy_phone) != 10:
            raise UnusableValueError("other_pharmacy_phone", "must have ten digits")
        about = (member_id, drug_name, other_pharmacy_name, store_with(store_id).id)
        days = 1 if other_rx_number else 2
        return {
            "transfer_number": f"TR-{number(10000, 99999, *about)}",
            "expected_on": (today() + timedelta(days=days)).isoformat(),
        }

    def request_prior_authorization(
        self, prescription_number: str, diagnosis_code: str, urgency: str = "STANDARD"
    ) -> Outputs:
        row = self.prescription(prescription_number)
        due = today() + timedelta(days=1 if urgency == "EXPEDITED" else 3)
        case = number(100000, 999999, row.number, diagnosis_code)
        return {"case_number": f"PA-{case}", "decision_due_on": due.isoformat()}

    def get_prior_authorization(self, case_number: str) -> Outputs:
        decision = pick(("PENDING", "APPROVED", "DENIED", "MORE_INFORMATION"), case_number)
        approved = (
            {"valid_until": (today() + timedelta(days=365)).isoformat()} if decision == "APPROVED" else {}
        )
        return {"decision": decision, **approved}

    def check_prescription_price(
        self, drug_name: str, quantity: int, strength: str = "", generic_only: bool = False
    ) -> Outputs:
        cents = quantity * number(6, 190, drug_name, strength)
        brand = [] if generic_only else [{"name": f"{drug_name.title()} (brand)", "cents": cents * 3}]
        generic = {"name": f"{drug_name.lower()} generic, 90 days", "cents": cents * 9 // 10}
        return {
            "cash_price_cents": cents,
            "card_price_cents": cents * 7 // 10,
            "alternatives": [generic, *brand],
        }

    def check_drug_interactions(self, medicines: str) -> Outputs:
        names = {n.strip().lower() for n in medicines.split(",")}
        interactions = [(pair, *finding) for pair, finding in INTERACTIONS.items() if pair <= names]
        # MAJOR sorts before MODERATE.
        interactions.sort(key=lambda finding: finding[1])
        _, severity, explanation = (
            interactions[0] if interactions else (frozenset(), "NONE_KNOWN", "We know of no interaction.")
        )
        pairs = [{"medicines": sorted(pair), "severity": severity} for pair, severity, _ in interactions]
        return {"severity": severity, "explanation": explanation, "pairs": pairs}

    def get_loyalty_balance(self, member_id: str) -> Outputs:
        points = number(0, 4000, member_id)
        return {"points": points, "worth_cents": points, "expire_on": f"{today().year + 1}-01-31"}

    def ask_pharmacist(self, member_id: str, question: str, call_back: str = "AFTERNOON") -> Outputs:
        answer_by = today() + timedelta(days=1)
        return {
            "ticket": f"Q-{number(1000, 9999, member_id, question, call_back)}",
            "answer_by": str(answer_by),
        }
