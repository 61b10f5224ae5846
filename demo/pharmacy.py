"""Bramble Pharmacy: prescriptions, prices, safety. Stores are in stores.py, clinic visits in clinic.py."""

from dataclasses import dataclass
from datetime import date, timedelta

from demo.calls import CannotDoError, UnusableValueError
from demo.clinic import Clinic
from demo.invented import number, pick, today
from demo.signatures import Outputs, choice, data, flag, text, tool, whole
from demo.stores import Stores, store_with


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


PRESCRIPTIONS = (
    Prescription("7043118", "BR-20418", "Lisinopril", "10 mg tablet", "Dr. Ines Okafor", 3, 210, 400),
    Prescription("7043119", "BR-20418", "Metformin", "500 mg tablet", "Dr. Ines Okafor", 5, 300, 0),
    Prescription("7051902", "BR-20418", "Albuterol", "90 mcg inhaler", "Dr. Paul Renner", 0, 45, 2500),
    Prescription(
        "7068240", "BR-31177", "Levothyroxine", "75 mcg tablet", "Dr. Mina Castellano", 2, 120, 1000
    ),
    Prescription("7068255", "BR-31177", "Amoxicillin", "500 mg capsule", "Dr. Mina Castellano", 1, -12, 800),
    Prescription("7070006", "BR-55902", "Semaglutide", "0.5 mg pen", "Dr. Paul Renner", 4, 180, 4500),
)

# Pairs that make a pharmacist pick up the phone; everything else is answered with NONE_KNOWN.
INTERACTIONS = {
    frozenset({"lisinopril", "ibuprofen"}): ("MODERATE", "Ibuprofen can raise blood pressure again."),
    frozenset({"lisinopril", "spironolactone"}): ("MAJOR", "Together they can raise potassium dangerously."),
    frozenset({"warfarin", "aspirin"}): ("MAJOR", "Bleeding becomes more likely."),
    frozenset({"levothyroxine", "calcium carbonate"}): ("MODERATE", "Take them four hours apart."),
    frozenset({"metformin", "alcohol"}): ("MODERATE", "Heavy drinking raises the risk of lactic acidosis."),
}  # fmt: skip

REFILL_STATUSES = {
    "RECEIVED": "We have the request and have not started on it.",
    "IN_PROGRESS": "A technician is filling it.",
    "NEEDS_PRESCRIBER": "We asked the prescriber for permission and wait for the answer.",
    "READY": "It waits at the counter.",
    "CANCELLED": "The request was withdrawn.",
}


class BramblePharmacy(Stores, Clinic):
    def __init__(self) -> None:
        super().__init__()
        self.refills: dict[str, str] = {}
        self.cancelled: set[str] = set()

    def prescription(self, wanted: str) -> Prescription:
        found = next((p for p in PRESCRIPTIONS if p.number == wanted), None)
        if found is None:
            raise CannotDoError(
                "prescription_not_found", f"We hold no prescription with the number {wanted}."
            )
        return found

    def refills_left(self, prescription: Prescription) -> int:
        used = [n for n, rx in self.refills.items() if rx == prescription.number and n not in self.cancelled]
        return max(0, prescription.refills - len(used))

    def refill(self, wanted: str) -> Prescription:
        if wanted not in self.refills:
            raise CannotDoError("refill_not_found", f"There is no refill request {wanted}.")
        return self.prescription(self.refills[wanted])

    @tool(
        "16cfb4ab-2043-4f81-878c-6c976c049920",
        "Lists a member's prescriptions.",
        reworded={
            2: "Lists the prescriptions that a member has with us, newest first. Expired ones are left out "
            "unless you ask for them."
        },
        tags=("prescriptions",),
        inputs=(
            text("member_id", "Bramble member number, as on the card: BR- and five digits."),
            flag(
                "include_expired",
                "Also list prescriptions that can no longer be filled.",
                optional=True,
                since=2,
            ),
        ),
        outputs=(
            data("prescriptions", "Number, drug, strength and refills left of each."),
            whole("count", since=2),
        ),
    )
    def list_prescriptions(self, member_id: str, include_expired: bool = False) -> Outputs:
        held = [
            p
            for p in PRESCRIPTIONS
            if p.member_id == member_id and (include_expired or p.expires_in_days >= 0)
        ]
        rows = [
            {"number": p.number, "drug": p.drug, "strength": p.strength, "refills_left": self.refills_left(p)}
            for p in held
        ]
        return {"prescriptions": rows, "count": len(rows)}

    @tool(
        "1a12a72b-d48b-4911-b15d-a5a579c3ae51",
        "Looks up one prescription: what it is, who wrote it, how many refills are left and until when it "
        "is valid.",
        tags=("prescriptions",),
        inputs=(text("prescription_number", "The Rx number on the label, seven digits.", longest=7),),
        outputs=(
            text("drug", "Generic name."),
            text("strength", "Strength and form, for instance 10 mg tablet."),
            text("prescriber", "Who wrote it."),
            whole("refills_left"),
            text("expires_on", "Last day on which it can be filled, as YYYY-MM-DD."),
            choice(
                "status",
                "Whether it can be filled today.",
                {
                    "ACTIVE": "It can be filled.",
                    "NO_REFILLS": "The prescriber must renew it first.",
                    "EXPIRED": "Its last day has passed.",
                },
                since=2,
            ),
        ),
    )
    def get_prescription(self, prescription_number: str) -> Outputs:
        found = self.prescription(prescription_number)
        left = self.refills_left(found)
        expired = found.expires_on < today()
        return {
            "drug": found.drug,
            "strength": found.strength,
            "prescriber": found.prescriber,
            "refills_left": left,
            "expires_on": found.expires_on.isoformat(),
            "status": "EXPIRED" if expired else "ACTIVE" if left else "NO_REFILLS",
        }

    @tool(
        "2b450f81-0a75-4d54-ab2f-6d0fa9fe964b",
        "Orders a refill of a prescription for pickup at one of our stores.",
        reworded={
            3: "Orders a refill of a prescription for pickup at one of our stores. Use it only after the "
            "person has said which medicine they want; it places the order at once. If no refills are "
            "left we ask the prescriber, which takes up to three working days."
        },
        tags=("prescriptions", "refills"),
        inputs=(
            text("prescription_number", "The Rx number on the label, seven digits.", longest=7),
            text("store_id", "Where it will be picked up; find_stores gives the ids."),
            choice(
                "notify_by",
                "How we say that it is ready. Without it we say nothing.",
                {"TEXT_MESSAGE": "To the mobile number on file.", "EMAIL": "To the email address on file."},
                widened={3: {"PHONE_CALL": "A recorded call between 9 am and 8 pm."}},
                optional=True,
                since=2,
            ),
        ),
        outputs=(
            text("refill_number", "Keep it: get_refill_status asks for it."),
            text("ready_on", "The day on which we expect to have it, as YYYY-MM-DD."),
            whole("copay_cents", "What the member pays at the counter, in cents.", since=3),
        ),
    )
    def refill_prescription(
        self,
        prescription_number: str,
        store_id: str,
        notify_by: str = "",
        pickup_method: str = "COUNTER",
    ) -> Outputs:
        found, store = self.prescription(prescription_number), store_with(store_id)
        if found.expires_on < today():
            raise CannotDoError(
                "prescription_expired", f"Prescription {found.number} expired on {found.expires_on}."
            )
        if pickup_method == "DRIVE_THROUGH" and "DRIVE_THROUGH" not in store.services:
            raise UnusableValueError("pickup_method", f"{store.name} has no drive-through")
        refill_number = f"RF-{found.number}-{len(self.refills) + 1}"
        days = 1 if self.refills_left(found) else 3
        self.refills[refill_number] = found.number
        ready_on = today() + timedelta(days=days)
        return {
            "refill_number": refill_number,
            "ready_on": ready_on.isoformat(),
            "copay_cents": found.copay_cents,
        }

    @tool(
        "dccafc09-7c24-4e64-9e56-4aa3b2be2b7a",
        "How far a refill has come.",
        tags=("refills",),
        inputs=(text("refill_number", "From refill_prescription."),),
        outputs=(
            choice(
                "status",
                "",
                REFILL_STATUSES,
                widened={2: {"OUT_FOR_DELIVERY": "A courier has it and will ask for a signature."}},
            ),
            text("drug", since=2),
        ),
    )
    def get_refill_status(self, refill_number: str) -> Outputs:
        found = self.refill(refill_number)
        status = "CANCELLED" if refill_number in self.cancelled else "IN_PROGRESS"
        return {"status": status, "drug": found.drug}

    @tool(
        "db878022-d236-443b-94e6-e836019c577c",
        "Takes back a refill request that has not been picked up. The refill counts as unused again.",
        tags=("refills",),
        inputs=(text("refill_number"),),
        outputs=(flag("cancelled"),),
    )
    def cancel_refill(self, refill_number: str) -> Outputs:
        self.refill(refill_number)
        self.cancelled.add(refill_number)
        return {"cancelled": True}

    @tool(
        "de86fb2e-dfc3-4613-9d7f-39c8e8d5b946",
        "Switches automatic refills on or off for one prescription.",
        tags=("refills",),
        inputs=(
            text("prescription_number", longest=7),
            flag("enabled", "true to switch on, false to switch off."),
            whole(
                "days_before",
                "How many days before running out we start filling.",
                low=2,
                high=14,
                optional=True,
            ),
        ),
        outputs=(text("message", "A sentence that can be read to the member."),),
    )
    def set_automatic_refill(self, prescription_number: str, enabled: bool, days_before: int = 5) -> Outputs:
        drug = self.prescription(prescription_number).drug
        start = f"We will start filling {drug} {days_before} days before it runs out."
        return {"message": start if enabled else f"{drug} is no longer refilled automatically."}

    @tool(
        "78d65a87-e78b-466c-996e-0231b711bc88",
        "Moves a prescription from another pharmacy to Bramble. We call the other pharmacy, so the transfer "
        "is a request and not a result: expect one to two working days. Controlled medicines of schedule II "
        "cannot be transferred; the prescriber has to write a new prescription for those.",
        tags=("prescriptions", "transfers"),
        inputs=(
            text("member_id"),
            text("drug_name", "As on the bottle, with the strength if known."),
            text("other_pharmacy_name"),
            text("other_pharmacy_phone", "Ten digits, any punctuation."),
            text("store_id", "The Bramble store that should have it."),
            text(
                "other_rx_number",
                "The number on the other pharmacy's label; it speeds things up.",
                optional=True,
            ),
        ),
        outputs=(text("transfer_number"), text("expected_on", "YYYY-MM-DD")),
    )
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

    @tool(
        "03af076f-720c-4acd-90de-c7c13b8d806a",
        "Asks the insurer for prior authorization of a medicine that the plan does not cover without it.",
        tags=("insurance",),
        inputs=(
            text("prescription_number", longest=7),
            text("diagnosis_code", "ICD-10 code from the prescriber, for instance E11.9."),
            choice(
                "urgency",
                "",
                {
                    "STANDARD": "Answer within 72 hours.",
                    "EXPEDITED": "Answer within 24 hours; the prescriber must agree.",
                },
                optional=True,
            ),
        ),
        outputs=(text("case_number"), text("decision_due_on")),
    )
    def request_prior_authorization(
        self, prescription_number: str, diagnosis_code: str, urgency: str = "STANDARD"
    ) -> Outputs:
        found = self.prescription(prescription_number)
        due = today() + timedelta(days=1 if urgency == "EXPEDITED" else 3)
        case = number(100000, 999999, found.number, diagnosis_code)
        return {"case_number": f"PA-{case}", "decision_due_on": due.isoformat()}

    @tool(
        "b2f5dcb3-b1ac-4fac-a8a6-a27b7d87c84f",
        "Status of a prior authorization case.",
        tags=("insurance",),
        inputs=(text("case_number", "PA- and six digits."),),
        outputs=(
            choice(
                "decision",
                "What the insurer said.",
                {
                    "PENDING": "No answer yet.",
                    "APPROVED": "Covered until the day in valid_until.",
                    "DENIED": "Not covered; the prescriber can appeal.",
                    "MORE_INFORMATION": "The insurer wants to see records.",
                },
            ),
            text("valid_until", "Only for approved cases."),
        ),
    )
    def get_prior_authorization(self, case_number: str) -> Outputs:
        decision = pick(("PENDING", "APPROVED", "DENIED", "MORE_INFORMATION"), case_number)
        approved = (
            {"valid_until": (today() + timedelta(days=365)).isoformat()} if decision == "APPROVED" else {}
        )
        return {"decision": decision, **approved}

    @tool(
        "ce494590-4da7-481e-9c2d-651a6c4b37fb",
        "Price of a medicine without insurance and with our savings card.",
        tags=("prices",),
        inputs=(
            text("drug_name", "Brand or generic."),
            whole("quantity", "Tablets, capsules, or millilitres.", low=1, high=360),
            text("strength", optional=True),
            flag("generic_only", "Leave brand names out of the alternatives.", optional=True, since=2),
        ),
        outputs=(
            whole("cash_price_cents", "Without any card."),
            whole("card_price_cents", "With the Bramble savings card."),
            data("alternatives", "Cheaper equivalents, if there are any.", since=2),
        ),
    )
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

    @tool(
        "adf16f0f-f8bb-48c5-a8e8-92cf22b6e126",
        "Checks whether medicines may be taken together. Give every medicine the person takes, prescribed "
        "or not, vitamins and alcohol included, separated by commas. The answer names the most serious pair "
        "that we know of and what it means in plain words. It is information for a conversation with a "
        "pharmacist and not a clearance: NONE_KNOWN says that our list has nothing, not that the "
        "combination is safe. For a MAJOR result tell the person to speak to a pharmacist before the next "
        "dose.",
        tags=("safety",),
        inputs=(
            text("medicines", "Names separated by commas, for instance lisinopril, ibuprofen.", longest=500),
        ),
        outputs=(
            choice(
                "severity",
                "Of the most serious pair.",
                {
                    "NONE_KNOWN": "Our list has nothing about them.",
                    "MODERATE": "May need another dose or a gap between doses.",
                    "MAJOR": "Should not be combined without a doctor's advice.",
                },
            ),
            text("explanation"),
            data("pairs", "Each pair found, with its severity.", since=2),
        ),
    )
    def check_drug_interactions(self, medicines: str) -> Outputs:
        names = {n.strip().lower() for n in medicines.split(",")}
        found = [(pair, *finding) for pair, finding in INTERACTIONS.items() if pair <= names]
        # MAJOR sorts before MODERATE.
        found.sort(key=lambda finding: finding[1])
        _, severity, explanation = (
            found[0] if found else (frozenset(), "NONE_KNOWN", "We know of no interaction.")
        )
        pairs = [{"medicines": sorted(pair), "severity": severity} for pair, severity, _ in found]
        return {"severity": severity, "explanation": explanation, "pairs": pairs}

    @tool(
        "7ca6c9e1-531a-4dbf-9364-c7bc93321c5a",
        "Points on a member's Bramble Rewards card and what they are worth.",
        tags=("members",),
        inputs=(text("member_id"),),
        outputs=(
            whole("points"),
            whole("worth_cents"),
            text("expire_on", "The day the oldest points lapse."),
        ),
    )
    def get_loyalty_balance(self, member_id: str) -> Outputs:
        points = number(0, 4000, member_id)
        return {"points": points, "worth_cents": points, "expire_on": f"{today().year + 1}-01-31"}

    @tool(
        "bd2f8294-09b3-47e6-9d09-306692f0bebe",
        "Leaves a question for a pharmacist, who calls back.",
        tags=("safety", "members"),
        inputs=(
            text("member_id"),
            text("question", "In the member's own words.", longest=1000),
            choice(
                "call_back",
                "When the pharmacist may call.",
                {"MORNING": "8 to 12", "AFTERNOON": "12 to 5", "EVENING": "5 to 9"},
                optional=True,
            ),
        ),
        outputs=(text("ticket"), text("answer_by", "The latest time we call, as YYYY-MM-DD.")),
    )
    def ask_pharmacist(self, member_id: str, question: str, call_back: str = "AFTERNOON") -> Outputs:
        answer_by = today() + timedelta(days=1)
        return {
            "ticket": f"Q-{number(1000, 9999, member_id, question, call_back)}",
            "answer_by": str(answer_by),
        }
