"""Northwind Air & Stay: the airline. Its hotels are in stays.py."""

from dataclasses import dataclass, replace
from datetime import date, timedelta

from demo.calls import CannotDoError, UnusableValueError, day
from demo.invented import number, pick, today
from demo.signatures import Outputs, choice, data, flag, text, tool, whole
from demo.stays import Stays

CABINS = {
    "ECONOMY": "The main cabin.",
    "PREMIUM_ECONOMY": "More room for the legs.",
    "BUSINESS": "Lie-flat on flights of more than five hours.",
}
CABIN_FACTORS = {"ECONOMY": 1, "PREMIUM_ECONOMY": 2, "BUSINESS": 4}
DEPARTURES = ("06:05", "09:40", "13:15", "17:50", "21:30")


@dataclass(frozen=True, slots=True)
class Offer:
    """One seat on one flight; the id says all, so nothing has to be remembered until it is booked."""

    flight: str
    origin: str
    destination: str
    date: date
    cabin: str

    @property
    def id(self) -> str:
        return f"{self.flight}.{self.origin}.{self.destination}.{self.date}.{self.cabin}"

    @property
    def cents(self) -> int:
        return 100 * number(69, 420, self.flight, self.date) * CABIN_FACTORS[self.cabin]

    @property
    def departs(self) -> str:
        return f"{self.date} {pick(DEPARTURES, self.flight)}"


def offer_with(offer_id: str) -> Offer:
    parts = offer_id.split(".")
    if len(parts) != 5 or parts[4] not in CABINS:
        raise UnusableValueError("offer_id", "is not an offer that search_flights gave")
    return Offer(parts[0], parts[1], parts[2], day(parts[3], "offer_id"), parts[4])


def airport(code: str, key: str) -> str:
    if len(code) != 3 or not code.isalpha():
        raise UnusableValueError(key, "must be an airport code of three letters, such as OMA")
    return code.upper()


@dataclass(frozen=True, slots=True)
class Ticket:
    reference: str
    last_name: str
    offer: Offer
    seat: str = ""
    bags: int = 0
    checked_in: bool = False


REFERENCE = text("booking_reference", "Six characters, on every confirmation.", longest=6)
LAST_NAME = text("last_name", "Of any traveler on the booking.")


class Northwind(Stays):
    def __init__(self) -> None:
        super().__init__()
        self.tickets: dict[str, Ticket] = {}

    def ticket(self, reference: str, last_name: str) -> Ticket:
        found = self.tickets.get(reference.upper())
        if found is None or found.last_name.casefold() != last_name.casefold():
            raise CannotDoError("booking_not_found", "No booking has this reference and last name.")
        return found

    def keep(self, ticket: Ticket) -> None:
        self.tickets[ticket.reference] = ticket

    @tool(
        "6cb02728-c5f4-4c16-9441-ac67f6c0b9bf",
        "Searches flights between two airports on a day.",
        reworded={
            2: "Searches flights between two airports on a day. Prices are for one adult with everything "
            "that has to be paid, and are good for twenty minutes; hold_fare keeps one for a day."
        },
        tags=("air", "search"),
        inputs=(
            text("origin", "IATA code of the airport, for instance OMA.", longest=3),
            text("destination", "IATA code.", longest=3),
            text("departure_date", "YYYY-MM-DD"),
            choice("cabin", "ECONOMY if left out.", CABINS, optional=True),
            flag("nonstop_only", optional=True),
            whole(
                "max_price_dollars", "Leave out dearer flights.", low=1, high=20000, optional=True, since=3
            ),
        ),
        outputs=(data("offers", "offer_id, flight, departure and price, cheapest first."), whole("count")),
    )
    def search_flights(
        self,
        origin: str,
        destination: str,
        departure_date: str,
        cabin: str = "ECONOMY",
        nonstop_only: bool = False,
        max_price_dollars: int = 20000,
    ) -> Outputs:
        start, end = airport(origin, "origin"), airport(destination, "destination")
        when = day(departure_date, "departure_date")
        if when < today():
            raise UnusableValueError("departure_date", "must not be in the past")
        flights = [f"NW{number(100, 989, start, end, n)}" for n in range(4)]
        offers = sorted((Offer(f, start, end, when, cabin) for f in flights), key=lambda o: o.cents)
        rows = [
            {
                "offer_id": o.id,
                "flight": o.flight,
                "departs": o.departs,
                "price_cents": o.cents,
                "stops": stops,
            }
            for o in offers
            if (stops := number(0, 1, o.flight)) == 0 or not nonstop_only
        ]
        rows = [r for r in rows if int(str(r["price_cents"])) <= 100 * max_price_dollars]
        return {"offers": rows, "count": len(rows)}

    @tool(
        "13d754c9-51da-466c-b837-d354b967d1a7",
        "Rules of a fare: what changing and cancelling cost, what baggage is included.",
        tags=("air", "fares"),
        inputs=(text("offer_id", "From search_flights."),),
        outputs=(
            flag("refundable"),
            whole("change_fee_cents"),
            whole("bags_included"),
            text("summary", "The rules in plain words.", since=2),
        ),
    )
    def get_fare_rules(self, offer_id: str) -> Outputs:
        offer = offer_with(offer_id)
        refundable = offer.cabin == "BUSINESS"
        fee = 0 if refundable else 7500
        summary = (
            "Refundable and free to change." if refundable else "Changes cost $75; no refund after 24 hours."
        )
        bags = CABIN_FACTORS[offer.cabin] // 2
        return {"refundable": refundable, "change_fee_cents": fee, "bags_included": bags, "summary": summary}

    @tool(
        "34b29c73-dee8-4632-ba2a-94cc00a24d68",
        "Holds a fare for 24 hours without payment.",
        tags=("air", "booking"),
        inputs=(text("offer_id"), text("email", "Where the reminder goes.", longest=254)),
        outputs=(text("hold_number"), text("held_until")),
    )
    def hold_fare(self, offer_id: str, email: str) -> Outputs:
        offer = offer_with(offer_id)
        until = today() + timedelta(days=1)
        return {"hold_number": f"H{number(10000, 99999, offer.id, email)}", "held_until": str(until)}

    @tool(
        "88da63aa-c770-4ec0-b9d0-1dc883998926",
        "Books a flight and charges the card on file. This spends money: repeat flight, date, traveler and "
        "price to the person and wait for a yes. A booking can be cancelled within 24 hours for a full "
        "refund.",
        tags=("air", "booking"),
        inputs=(
            text("offer_id"),
            text("first_name", "As in the passport."),
            text("last_name", "As in the passport."),
            text("email", longest=254),
            text("loyalty_number", "Northwind Miles number, to earn miles.", optional=True, since=2),
            choice(
                "traveler_type",
                "ADULT if left out.",
                {"ADULT": "From 12 years.", "CHILD": "2 to 11 years; must travel with an adult."},
                widened={3: {"LAP_INFANT": "Under 2 years, without a seat."}},
                optional=True,
                since=2,
            ),
        ),
        outputs=(REFERENCE, whole("charged_cents"), whole("miles_earned", since=2)),
    )
    def book_flight(
        self,
        offer_id: str,
        first_name: str,
        last_name: str,
        email: str,
        loyalty_number: str = "",
        traveler_type: str = "ADULT",
    ) -> Outputs:
        offer = offer_with(offer_id)
        reference = f"N{number(10000, 99999, offer.id, first_name, last_name, email)}"
        self.keep(Ticket(reference, last_name, offer))
        percent = {"ADULT": 100, "CHILD": 75, "LAP_INFANT": 10}[traveler_type]
        miles = offer.cents // 100 if loyalty_number else 0
        return {
            "booking_reference": reference,
            "charged_cents": offer.cents * percent // 100,
            "miles_earned": miles,
        }

    @tool(
        "26388123-f6dd-4573-906f-752bb9316204",
        "Shows a flight booking.",
        tags=("air", "booking"),
        inputs=(REFERENCE, LAST_NAME),
        outputs=(
            text("flight"),
            text("departs"),
            text("seat", "Empty until one is chosen."),
            data("details"),
        ),
    )
    def get_flight_booking(self, booking_reference: str, last_name: str) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        offer = ticket.offer
        details = {"from": offer.origin, "to": offer.destination, "cabin": offer.cabin, "bags": ticket.bags}
        return {"flight": offer.flight, "departs": offer.departs, "seat": ticket.seat, "details": details}

    @tool(
        "350709d7-7de2-41e2-9d2c-198be66041e5",
        "Moves a flight booking to another date on the same route. The fee is in the fare rules; a "
        "difference in fare comes on top and is never paid back.",
        tags=("air", "booking"),
        inputs=(REFERENCE, LAST_NAME, text("new_date", "YYYY-MM-DD")),
        outputs=(text("departs"), whole("to_pay_cents", "Fee and difference in fare together.")),
    )
    def change_flight(self, booking_reference: str, last_name: str, new_date: str) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        offer = replace(ticket.offer, date=day(new_date, "new_date"))
        self.keep(replace(ticket, offer=offer, seat="", checked_in=False))
        fee = 0 if offer.cabin == "BUSINESS" else 7500
        return {"departs": offer.departs, "to_pay_cents": fee + max(0, offer.cents - ticket.offer.cents)}

    @tool(
        "25c8ddd8-4588-4378-84e6-e6e811404beb",
        "Cancels a flight booking.",
        tags=("air", "booking"),
        inputs=(
            REFERENCE,
            LAST_NAME,
            choice(
                "refund_to",
                "ORIGINAL_PAYMENT if left out.",
                {
                    "ORIGINAL_PAYMENT": "The card that paid.",
                    "TRAVEL_CREDIT": "Valid for two years, with 10 % on top.",
                },
                optional=True,
                since=2,
            ),
        ),
        outputs=(whole("refund_cents"),),
    )
    def cancel_flight(
        self, booking_reference: str, last_name: str, refund_to: str = "ORIGINAL_PAYMENT"
    ) -> Outputs:
        gone = self.tickets.pop(self.ticket(booking_reference, last_name).reference)
        return {"refund_cents": gone.offer.cents * (110 if refund_to == "TRAVEL_CREDIT" else 100) // 100}

    @tool(
        "870dbb86-6324-4156-9d91-91eec51a4d5a",
        "Seat map of a booked flight.",
        tags=("air", "seats"),
        inputs=(REFERENCE, LAST_NAME),
        outputs=(data("free_seats", "Seat, kind and price in cents."), whole("count")),
    )
    def get_seat_map(self, booking_reference: str, last_name: str) -> Outputs:
        flight = self.ticket(booking_reference, last_name).offer.flight
        seats = [
            f"{row}{letter}"
            for row in range(7, 29)
            for letter in "ABCDEF"
            if not number(0, 3, flight, row, letter)
        ]
        kinds = {"A": "WINDOW", "F": "WINDOW", "C": "AISLE", "D": "AISLE"}
        rows = [
            {"seat": s, "kind": kinds.get(s[-1], "MIDDLE"), "cents": 0 if s[-1] in "BE" else 1800}
            for s in seats
        ]
        return {"free_seats": rows, "count": len(rows)}

    @tool(
        "7f9282f1-07be-47ac-9e61-88cd909d98a9",
        "Assigns a seat.",
        tags=("air", "seats"),
        inputs=(REFERENCE, LAST_NAME, text("seat", "Row and letter, such as 12C.", longest=3)),
        outputs=(text("assigned_seat"),),
    )
    def choose_seat(self, booking_reference: str, last_name: str, seat: str) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        if not seat[:-1].isdigit() or seat[-1:].upper() not in set("ABCDEF"):
            raise UnusableValueError("seat", "must be a row and a letter, such as 12C")
        self.keep(replace(ticket, seat=seat.upper()))
        return {"assigned_seat": seat.upper()}

    @tool(
        "e7c9641a-c208-4dac-926e-816832cfc630",
        "Adds checked bags to a booking.",
        tags=("air", "baggage"),
        inputs=(
            REFERENCE,
            LAST_NAME,
            whole("bags", "How many more.", low=1, high=5),
            choice(
                "special_item",
                "If one of them is not a suitcase.",
                {"BICYCLE": "Boxed.", "SKIS": "One pair with poles.", "INSTRUMENT": "Up to 23 kg."},
                widened={2: {"SURFBOARD": "Up to 2.7 m.", "STROLLER": "Free of charge."}},
                optional=True,
            ),
        ),
        outputs=(whole("to_pay_cents"),),
    )
    def add_bags(self, booking_reference: str, last_name: str, bags: int, special_item: str = "") -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        self.keep(replace(ticket, bags=ticket.bags + bags))
        extra = {"": 0, "STROLLER": -3500}.get(special_item, 4000)
        return {"to_pay_cents": bags * 3500 + extra}

    @tool(
        "4d283d36-2ba8-4f44-a62f-337eb6e10f0e",
        "Checks a traveler in. Opens 24 hours before departure and closes one hour before.",
        tags=("air", "check-in"),
        inputs=(REFERENCE, LAST_NAME, flag("carries_no_dangerous_goods", "The traveler has confirmed it.")),
        outputs=(text("seat"), text("boarding_time", "HH:MM")),
    )
    def check_in(self, booking_reference: str, last_name: str, carries_no_dangerous_goods: bool) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        if not carries_no_dangerous_goods:
            raise UnusableValueError("carries_no_dangerous_goods", "must be confirmed by the traveler")
        if ticket.offer.date > today() + timedelta(days=1):
            raise CannotDoError("too_early", f"Check-in opens a day before {ticket.offer.departs}.")
        seat = ticket.seat or f"{number(7, 28, ticket.reference)}B"
        self.keep(replace(ticket, seat=seat, checked_in=True))
        return {"seat": seat, "boarding_time": ticket.offer.departs[-5:]}

    @tool(
        "beae12b7-555f-4283-9dc5-ba34da499758",
        "Boarding pass of a traveler who has checked in.",
        tags=("air", "check-in"),
        inputs=(REFERENCE, LAST_NAME),
        outputs=(
            text("barcode_text", "For an Aztec code."),
            text("gate"),
            text("group", "Boarding group, 1 to 5."),
        ),
    )
    def get_boarding_pass(self, booking_reference: str, last_name: str) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        if not ticket.checked_in:
            raise CannotDoError("not_checked_in", "The traveler has to check in first.")
        barcode = f"M1{ticket.last_name.upper()}/{ticket.reference}{ticket.offer.flight}{ticket.seat}"
        gate = f"{pick('ABC', ticket.offer.flight)}{number(1, 24, ticket.offer.flight)}"
        return {"barcode_text": barcode, "gate": gate, "group": str(number(1, 5, ticket.reference))}

    @tool(
        "2217e380-ecd7-4b33-81fc-e7a8b8663186",
        "Flight status: on time, delayed, cancelled.",
        tags=("air", "status"),
        inputs=(text("flight_number", "NW and three digits."), text("date", "Day of departure, YYYY-MM-DD.")),
        outputs=(
            choice(
                "status",
                "",
                {"ON_TIME": "", "DELAYED": "More than 15 minutes.", "CANCELLED": "", "LANDED": ""},
                widened={2: {"DIVERTED": "Landed or will land elsewhere."}},
            ),
            whole("delay_minutes"),
            text("gate", "Absent until two hours before departure.", since=2),
        ),
    )
    def get_flight_status(self, flight_number: str, date: str) -> Outputs:
        when = day(date, "date")
        if when < today():
            return {"status": "LANDED", "delay_minutes": 0}
        delay = max(0, number(-60, 90, flight_number, when))
        gate = f"B{number(1, 24, flight_number)}"
        return {"status": "DELAYED" if delay > 15 else "ON_TIME", "delay_minutes": delay, "gate": gate}

    @tool(
        "9de0c101-8e3f-4057-8d98-86a33c779b63",
        "Files a claim for delayed, damaged or lost baggage, or for a delay. Claims for damage must reach "
        "us within seven days and claims for delayed baggage within twenty-one days of receiving it. "
        "Attachments are asked for by email afterwards; do not read card numbers or passport numbers into "
        "the description.",
        tags=("air", "claims", "baggage"),
        inputs=(
            REFERENCE,
            LAST_NAME,
            choice(
                "kind",
                "What happened.",
                {
                    "BAG_DELAYED": "It has not come yet.",
                    "BAG_DAMAGED": "It came broken.",
                    "BAG_LOST": "Missing for more than five days.",
                },
                widened={
                    2: {
                        "FLIGHT_DELAYED": "Arrived more than three hours late.",
                        "DENIED_BOARDING": "Overbooked.",
                    }
                },
            ),
            text("description", longest=2000),
            whole("amount_dollars", "What is claimed, if known.", low=1, high=3800, optional=True),
        ),
        outputs=(text("claim_number"), text("answer_by")),
    )
    def file_travel_claim(
        self, booking_reference: str, last_name: str, kind: str, description: str, amount_dollars: int = 0
    ) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        claim = number(100000, 999999, ticket.reference, kind, description, amount_dollars)
        return {"claim_number": f"CL{claim}", "answer_by": str(today() + timedelta(days=30))}

    @tool(
        "ea8dc3ce-1426-4a4b-80b5-e6a08e53717b",
        "Status of a claim.",
        tags=("air", "claims"),
        inputs=(text("claim_number"),),
        outputs=(
            choice(
                "status",
                "",
                {
                    "RECEIVED": "",
                    "IN_REVIEW": "",
                    "PAID": "Money is on its way.",
                    "REJECTED": "A letter says why.",
                },
            ),
            whole("paid_cents"),
        ),
    )
    def get_travel_claim(self, claim_number: str) -> Outputs:
        status = pick(("RECEIVED", "IN_REVIEW", "PAID", "REJECTED"), claim_number)
        return {"status": status, "paid_cents": number(4000, 90000, claim_number) if status == "PAID" else 0}

    @tool(
        "af215127-861b-415a-b4ea-2f0b57a0c1c6",
        "Miles and status of a Northwind Miles member.",
        tags=("loyalty",),
        inputs=(text("loyalty_number", "Nine digits.", longest=9),),
        outputs=(
            whole("miles"),
            choice(
                "tier", "", {"BLUE": "", "SILVER": "25,000 miles a year.", "GOLD": "60,000 miles a year."}
            ),
            text("miles_expire_on", since=2),
        ),
    )
    def get_loyalty_balance(self, loyalty_number: str) -> Outputs:
        miles = number(0, 90000, loyalty_number)
        tier = "GOLD" if miles >= 60000 else "SILVER" if miles >= 25000 else "BLUE"
        return {"miles": miles, "tier": tier, "miles_expire_on": f"{today().year + 2}-12-31"}
