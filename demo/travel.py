"""Northwind Air & Stay: the airline. Its hotels are in stays.py."""

from dataclasses import dataclass, replace
from datetime import date, timedelta

from demo.calls import CannotDoError, UnusableValueError, day
from demo.fake_data import number, pick, today
from demo.signatures import Outputs
from demo.stays import WORLD, Stays

RECORDS = WORLD["records"]


@dataclass(frozen=True, slots=True)
class Seat:
    """One seat on one flight. The id contains everything, so nothing is stored before the booking."""

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
        return 100 * number(69, 420, self.flight, self.date) * int(RECORDS["cabin_factors"][self.cabin])

    @property
    def departs(self) -> str:
        return f"{self.date} {pick(RECORDS['departures'], self.flight)}"


def offer_with(offer_id: str) -> Seat:
    parts = offer_id.split(".")
    if len(parts) != 5 or parts[4] not in RECORDS["cabin_factors"]:
        raise UnusableValueError("offer_id", "is not an offer that search_flights gave")
    return Seat(parts[0], parts[1], parts[2], day(parts[3], "offer_id"), parts[4])


def airport(code: str, key: str) -> str:
    if len(code) != 3 or not code.isalpha():
        raise UnusableValueError(key, "must be an airport code of three letters, such as OMA")
    return code.upper()


@dataclass(frozen=True, slots=True)
class Ticket:
    reference: str
    last_name: str
    offer: Seat
    seat: str = ""
    bags: int = 0
    checked_in: bool = False


class Northwind(Stays):
    def __init__(self) -> None:
        super().__init__()
        self.tickets: dict[str, Ticket] = {}

    def ticket(self, reference: str, last_name: str) -> Ticket:
        ticket = self.tickets.get(reference.upper())
        if ticket is None or ticket.last_name.casefold() != last_name.casefold():
            raise CannotDoError("booking_not_found", "No booking has this reference and last name.")
        return ticket

    def keep(self, ticket: Ticket) -> None:
        self.tickets[ticket.reference] = ticket

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
        offers = sorted((Seat(f, start, end, when, cabin) for f in flights), key=lambda o: o.cents)
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

    def get_fare_rules(self, offer_id: str) -> Outputs:
        offer = offer_with(offer_id)
        refundable = offer.cabin == "BUSINESS"
        fee = 0 if refundable else 7500
        summary = (
            "Refundable and free to change." if refundable else "Changes cost $75; no refund after 24 hours."
        )
        bags = RECORDS["cabin_factors"][offer.cabin] // 2
        return {"refundable": refundable, "change_fee_cents": fee, "bags_included": bags, "summary": summary}

    def hold_fare(self, offer_id: str, email: str) -> Outputs:
        offer = offer_with(offer_id)
        until = today() + timedelta(days=1)
        return {"hold_number": f"H{number(10000, 99999, offer.id, email)}", "held_until": str(until)}

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

    def get_flight_booking(self, booking_reference: str, last_name: str) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        offer = ticket.offer
        details = {"from": offer.origin, "to": offer.destination, "cabin": offer.cabin, "bags": ticket.bags}
        return {"flight": offer.flight, "departs": offer.departs, "seat": ticket.seat, "details": details}

    def change_flight(self, booking_reference: str, last_name: str, new_date: str) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        offer = replace(ticket.offer, date=day(new_date, "new_date"))
        self.keep(replace(ticket, offer=offer, seat="", checked_in=False))
        fee = 0 if offer.cabin == "BUSINESS" else 7500
        return {"departs": offer.departs, "to_pay_cents": fee + max(0, offer.cents - ticket.offer.cents)}

    def cancel_flight(
        self, booking_reference: str, last_name: str, refund_to: str = "ORIGINAL_PAYMENT"
    ) -> Outputs:
        cancelled = self.tickets.pop(self.ticket(booking_reference, last_name).reference)
        return {"refund_cents": cancelled.offer.cents * (110 if refund_to == "TRAVEL_CREDIT" else 100) // 100}

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

    def choose_seat(self, booking_reference: str, last_name: str, seat: str) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        if not seat[:-1].isdigit() or seat[-1:].upper() not in set("ABCDEF"):
            raise UnusableValueError("seat", "must be a row and a letter, such as 12C")
        self.keep(replace(ticket, seat=seat.upper()))
        return {"assigned_seat": seat.upper()}

    def add_bags(self, booking_reference: str, last_name: str, bags: int, special_item: str = "") -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        self.keep(replace(ticket, bags=ticket.bags + bags))
        extra = {"": 0, "STROLLER": -3500}.get(special_item, 4000)
        return {"to_pay_cents": bags * 3500 + extra}

    def check_in(self, booking_reference: str, last_name: str, carries_no_dangerous_goods: bool) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        if not carries_no_dangerous_goods:
            raise UnusableValueError("carries_no_dangerous_goods", "must be confirmed by the traveler")
        if ticket.offer.date > today() + timedelta(days=1):
            raise CannotDoError("too_early", f"Check-in opens a day before {ticket.offer.departs}.")
        seat = ticket.seat or f"{number(7, 28, ticket.reference)}B"
        self.keep(replace(ticket, seat=seat, checked_in=True))
        return {"seat": seat, "boarding_time": ticket.offer.departs[-5:]}

    def get_boarding_pass(self, booking_reference: str, last_name: str) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        if not ticket.checked_in:
            raise CannotDoError("not_checked_in", "The traveler has to check in first.")
        barcode = f"M1{ticket.last_name.upper()}/{ticket.reference}{ticket.offer.flight}{ticket.seat}"
        gate = f"{pick('ABC', ticket.offer.flight)}{number(1, 24, ticket.offer.flight)}"
        return {"barcode_text": barcode, "gate": gate, "group": str(number(1, 5, ticket.reference))}

    def get_flight_status(self, flight_number: str, date: str) -> Outputs:
        when = day(date, "date")
        if when < today():
            return {"status": "LANDED", "delay_minutes": 0}
        delay = max(0, number(-60, 90, flight_number, when))
        gate = f"B{number(1, 24, flight_number)}"
        return {"status": "DELAYED" if delay > 15 else "ON_TIME", "delay_minutes": delay, "gate": gate}

    def file_travel_claim(
        self, booking_reference: str, last_name: str, kind: str, description: str, amount_dollars: int = 0
    ) -> Outputs:
        ticket = self.ticket(booking_reference, last_name)
        claim = number(100000, 999999, ticket.reference, kind, description, amount_dollars)
        return {"claim_number": f"CL{claim}", "answer_by": str(today() + timedelta(days=30))}

    def get_travel_claim(self, claim_number: str) -> Outputs:
        status = pick(("RECEIVED", "IN_REVIEW", "PAID", "REJECTED"), claim_number)
        return {"status": status, "paid_cents": number(4000, 90000, claim_number) if status == "PAID" else 0}

    def get_loyalty_balance(self, loyalty_number: str) -> Outputs:
        miles = number(0, 90000, loyalty_number)
        tier = "GOLD" if miles >= 60000 else "SILVER" if miles >= 25000 else "BLUE"
        return {"miles": miles, "tier": tier, "miles_expire_on": f"{today().year + 2}-12-31"}
