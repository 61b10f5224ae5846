"""Northwind's hotels. They came from another company, which shows in how their inputs are spelled."""

from dataclasses import dataclass, replace
from datetime import date

from demo.calls import CannotDoError, UnusableValueError, day
from demo.invented import number, pick
from demo.signatures import Outputs, choice, data, flag, text, tool, whole

ROOM_TYPES = {
    "QUEEN": "One queen bed, 22 square metres.",
    "TWO_QUEENS": "Two queen beds, 28 square metres.",
    "KING_SUITE": "One king bed and a sitting room, 46 square metres.",
}
ROOM_CENTS = {"QUEEN": 11900, "TWO_QUEENS": 14900, "KING_SUITE": 24900, "ACCESSIBLE_QUEEN": 11900}

HOTELS = {
    "OMA-RIVER": ("Northwind Riverfront", "Omaha"),
    "CHI-LOOP": ("Northwind Loop", "Chicago"),
    "CHI-OHARE": ("Northwind O'Hare", "Chicago"),
    "DEN-UNION": ("Northwind Union Station", "Denver"),
    "BOS-HARBOR": ("Northwind Harborside", "Boston"),
    "SEA-PIER": ("Northwind Pier 55", "Seattle"),
}


@dataclass(frozen=True, slots=True)
class Stay:
    number: str
    hotel_id: str
    room_type: str
    check_in: date
    check_out: date
    guests: int
    checkout_hour: int = 11

    @property
    def nights(self) -> int:
        return (self.check_out - self.check_in).days


def hotel_known(hotel_id: str) -> str:
    if hotel_id not in HOTELS:
        raise CannotDoError("hotel_not_found", f"There is no hotel {hotel_id}; search_hotels gives the ids.")
    return hotel_id


def nightly_cents(hotel_id: str, room_type: str, night: date) -> int:
    return ROOM_CENTS[room_type] + 100 * number(0, 60, hotel_id, night)


def dates(check_in: str, check_out: str) -> tuple[date, date]:
    arrive, leave = day(check_in, "check_in"), day(check_out, "check_out")
    if not 1 <= (leave - arrive).days <= 30:
        raise UnusableValueError("check_out", "must be 1 to 30 nights after checkIn")
    return arrive, leave


CONFIRMATION = text("confirmationNumber", "ST- and five digits.")
ROOM_TYPE = choice(
    "roomType", "", ROOM_TYPES, widened={2: {"ACCESSIBLE_QUEEN": "One queen bed, step-free, roll-in shower."}}
)


class Stays:
    def __init__(self) -> None:
        self.stays: dict[str, Stay] = {}

    def stay(self, wanted: str) -> Stay:
        if wanted not in self.stays:
            raise CannotDoError("stay_not_found", f"There is no stay {wanted}.")
        return self.stays[wanted]

    @tool(
        "3b792a7a-de07-402f-bd50-2ae2e1f5f8d6",
        "Finds hotels in a city.",
        tags=("hotel", "search"),
        inputs=(
            text("city"),
            text("checkIn", "YYYY-MM-DD"),
            text("checkOut", "YYYY-MM-DD"),
            whole("guests", low=1, high=4),
            flag("petFriendly", optional=True, since=2),
        ),
        outputs=(data("hotels", "Id, name and the lowest price per night in cents."),),
    )
    def search_hotels(
        self, city: str, check_in: str, check_out: str, guests: int, pet_friendly: bool = False
    ) -> Outputs:
        arrive, _ = dates(check_in, check_out)
        room_type = "QUEEN" if guests <= 2 else "TWO_QUEENS"
        rows = [
            {"hotelId": h, "name": name, "fromCents": nightly_cents(h, room_type, arrive)}
            for h, (name, where) in HOTELS.items()
            if where.casefold() == city.strip().casefold() and (not pet_friendly or number(0, 1, h))
        ]
        return {"hotels": rows}

    @tool(
        "4be71c81-e2b5-4127-ad48-2a652cd1525e",
        "Address, phone and amenities of a hotel.",
        tags=("hotel",),
        inputs=(text("hotelId", "From search_hotels."),),
        outputs=(text("name"), text("phone"), data("amenities"), text("checkInFrom", "HH:MM")),
    )
    def get_hotel(self, hotel_id: str) -> Outputs:
        name, _ = HOTELS[hotel_known(hotel_id)]
        amenities = [
            a for a in ("pool", "gym", "parking", "shuttle", "breakfast") if number(0, 2, hotel_id, a)
        ]
        return {
            "name": name,
            "phone": f"555-01{number(10, 99, hotel_id)}",
            "amenities": amenities,
            "check_in_from": "15:00",
        }

    @tool(
        "31b590ce-fb9f-4923-957e-79276c55f426",
        "Room types of a hotel with size, beds and how many people fit.",
        tags=("hotel", "rooms"),
        inputs=(text("hotelId"),),
        outputs=(data("roomTypes"),),
    )
    def list_room_types(self, hotel_id: str) -> Outputs:
        hotel_known(hotel_id)
        sleeps = {"TWO_QUEENS": 4, "KING_SUITE": 3}
        return {
            "room_types": [{"type": t, "about": d, "sleeps": sleeps.get(t, 2)} for t, d in ROOM_TYPES.items()]
        }

    @tool(
        "9a92c39b-5a01-4cc8-889d-bee1cb44a61c",
        "Rates for a room, night by night. Taxes and the resort fee are not in it.",
        reworded={2: "Rates for a room, night by night, and the total with taxes."},
        tags=("hotel", "rates"),
        inputs=(text("hotelId"), ROOM_TYPE, text("checkIn"), text("checkOut")),
        outputs=(data("nights", "Date and price in cents."), whole("totalCents", "With taxes.", since=2)),
    )
    def get_room_rates(self, hotel_id: str, room_type: str, check_in: str, check_out: str) -> Outputs:
        arrive, leave = dates(check_in, check_out)
        every = [date.fromordinal(n) for n in range(arrive.toordinal(), leave.toordinal())]
        prices = [nightly_cents(hotel_known(hotel_id), room_type, night) for night in every]
        rows = [{"date": str(d), "cents": c} for d, c in zip(every, prices, strict=True)]
        return {"nights": rows, "total_cents": sum(prices) * 114 // 100}

    @tool(
        "b92be1b0-398f-49c4-98f2-20c316225347",
        "Books a room. The first night is charged at once, the rest at checkout.",
        tags=("hotel", "booking"),
        inputs=(
            text("hotelId"),
            ROOM_TYPE,
            text("checkIn", "YYYY-MM-DD"),
            text("checkOut", "YYYY-MM-DD"),
            text("guestName"),
            whole("guests", low=1, high=4),
            text(
                "requests",
                "Anything the hotel should know. Not promised.",
                optional=True,
                longest=500,
                since=3,
            ),
        ),
        outputs=(CONFIRMATION, whole("chargedCents"), text("freeCancellationUntil", since=3)),
    )
    def book_room(
        self,
        hotel_id: str,
        room_type: str,
        check_in: str,
        check_out: str,
        guest_name: str,
        guests: int,
        requests: str = "",
    ) -> Outputs:
        arrive, leave = dates(check_in, check_out)
        reference = f"ST-{number(10000, 99999, hotel_known(hotel_id), guest_name, arrive, requests)}"
        self.stays[reference] = Stay(reference, hotel_id, room_type, arrive, leave, guests)
        return {
            "confirmation_number": reference,
            "charged_cents": nightly_cents(hotel_id, room_type, arrive),
            "free_cancellation_until": str(date.fromordinal(arrive.toordinal() - 2)),
        }

    @tool(
        "3409d682-b992-4750-a0c1-d42c49b4cce9",
        "Changes dates or number of guests of a stay.",
        tags=("hotel", "booking"),
        inputs=(
            CONFIRMATION,
            text("checkIn", optional=True),
            text("checkOut", optional=True),
            whole("guests", low=1, high=4, optional=True),
        ),
        outputs=(whole("nights"), whole("differenceCents", "Negative if the stay has become cheaper.")),
    )
    def amend_stay(
        self, confirmation_number: str, check_in: str = "", check_out: str = "", guests: int = 0
    ) -> Outputs:
        old = self.stay(confirmation_number)
        arrive, leave = dates(check_in or str(old.check_in), check_out or str(old.check_out))
        new = replace(old, check_in=arrive, check_out=leave, guests=guests or old.guests)
        self.stays[new.number] = new
        return {
            "nights": new.nights,
            "difference_cents": (new.nights - old.nights) * ROOM_CENTS[new.room_type],
        }

    @tool(
        "fd3bdc34-59d2-47ba-b86e-f069aaf3f4c5",
        "Cancels a stay.",
        tags=("hotel", "booking"),
        inputs=(CONFIRMATION,),
        outputs=(whole("refundCents"),),
    )
    def cancel_stay(self, confirmation_number: str) -> Outputs:
        gone = self.stays.pop(self.stay(confirmation_number).number)
        return {"refund_cents": nightly_cents(gone.hotel_id, gone.room_type, gone.check_in)}

    @tool(
        "1eaf7ac0-88a4-49a2-bb44-0f03da3b24a1",
        "Asks for a later checkout. The desk answers at once; after 2 pm half a night is charged.",
        tags=("hotel", "rooms"),
        inputs=(CONFIRMATION, whole("hour", "12 to 18, on the day of departure.", low=12, high=18)),
        outputs=(
            choice(
                "decision",
                "",
                {"GRANTED": "As asked.", "PARTLY": "Earlier than asked.", "REFUSED": "The hotel is full."},
            ),
            whole("untilHour"),
            whole("feeCents"),
        ),
    )
    def request_late_checkout(self, confirmation_number: str, hour: int) -> Outputs:
        stay = self.stay(confirmation_number)
        latest = pick((11, 13, 16, 18), stay.hotel_id, stay.check_out)
        until = min(hour, latest)
        self.stays[stay.number] = replace(stay, checkout_hour=until)
        decision = "GRANTED" if until == hour else "REFUSED" if until == 11 else "PARTLY"
        fee = ROOM_CENTS[stay.room_type] // 2 if until > 14 else 0
        return {"decision": decision, "until_hour": until, "fee_cents": fee}

    @tool(
        "11d0d0c6-e85d-486c-9766-93c2ed84a413",
        "The folio of a stay: every charge so far, and what is still to pay.",
        tags=("hotel", "billing"),
        inputs=(
            CONFIRMATION,
            flag("includeTaxes", "List taxes as lines of their own.", optional=True, since=2),
        ),
        outputs=(data("lines", "Date, text and cents."), whole("balanceCents")),
    )
    def get_folio(self, confirmation_number: str, include_taxes: bool = False) -> Outputs:
        stay = self.stay(confirmation_number)
        every = [date.fromordinal(stay.check_in.toordinal() + n) for n in range(stay.nights)]
        nights = [(d, nightly_cents(stay.hotel_id, stay.room_type, d)) for d in every]
        taxes = sum(cents for _, cents in nights) * 14 // 100
        lines = [{"date": str(d), "text": "Room", "cents": cents} for d, cents in nights]
        if include_taxes:
            lines.append({"date": str(stay.check_out), "text": "Taxes", "cents": taxes})
        return {"lines": lines, "balance_cents": sum(cents for _, cents in nights[1:]) + taxes}

    @tool(
        "c9b3616d-7800-434b-8278-f83bef795e7d",
        "housekeeping request",
        tags=("hotel", "rooms"),
        inputs=(
            CONFIRMATION,
            choice("item", "", {"TOWELS": "", "PILLOWS": "", "CRIB": "", "CLEANING": "Of the whole room."}),
            whole("quantity", low=1, high=10, optional=True),
        ),
        outputs=(whole("minutes", "Until somebody is at the door."),),
    )
    def request_housekeeping(self, confirmation_number: str, item: str, quantity: int = 1) -> Outputs:
        return {"minutes": number(5, 40, self.stay(confirmation_number).number, item, quantity)}
