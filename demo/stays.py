"""Northwind's hotels. They came from another company, which shows in how their inputs are spelled."""

from dataclasses import dataclass, replace
from datetime import date

from demo.calls import CannotDoError, UnusableValueError, day
from demo.fake_data import number, pick
from demo.signatures import Outputs
from demo.worlds import world

WORLD = world("northwind")
ROOM_TYPES: dict[str, str] = WORLD["choices"]["room_types"]
ROOM_CENTS: dict[str, int] = WORLD["records"]["room_cents"]
HOTELS: dict[str, dict[str, str]] = {hotel["id"]: hotel for hotel in WORLD["records"]["hotels"]}


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


class Stays:
    world = WORLD

    def __init__(self) -> None:
        self.stays: dict[str, Stay] = {}

    def stay(self, stay_id: str) -> Stay:
        if stay_id not in self.stays:
            raise CannotDoError("stay_not_found", f"There is no stay {stay_id}.")
        return self.stays[stay_id]

    def search_hotels(
        self, city: str, check_in: str, check_out: str, guests: int, pet_friendly: bool = False
    ) -> Outputs:
        arrive, _ = dates(check_in, check_out)
        room_type = "QUEEN" if guests <= 2 else "TWO_QUEENS"
        rows = [
            {"hotelId": h, "name": hotel["name"], "fromCents": nightly_cents(h, room_type, arrive)}
            for h, hotel in HOTELS.items()
            if hotel["city"].casefold() == city.strip().casefold() and (not pet_friendly or number(0, 1, h))
        ]
        return {"hotels": rows}

    def get_hotel(self, hotel_id: str) -> Outputs:
        name = HOTELS[hotel_known(hotel_id)]["name"]
        amenities = [
            a for a in ("pool", "gym", "parking", "shuttle", "breakfast") if number(0, 2, hotel_id, a)
        ]
        return {
            "name": name,
            "phone": f"555-01{number(10, 99, hotel_id)}",
            "amenities": amenities,
            "check_in_from": "15:00",
        }

    def list_room_types(self, hotel_id: str) -> Outputs:
        hotel_known(hotel_id)
        sleeps = {"TWO_QUEENS": 4, "KING_SUITE": 3}
        return {
            "room_types": [{"type": t, "about": d, "sleeps": sleeps.get(t, 2)} for t, d in ROOM_TYPES.items()]
        }

    def get_room_rates(self, hotel_id: str, room_type: str, check_in: str, check_out: str) -> Outputs:
        arrive, leave = dates(check_in, check_out)
        every = [date.fromordinal(n) for n in range(arrive.toordinal(), leave.toordinal())]
        prices = [nightly_cents(hotel_known(hotel_id), room_type, night) for night in every]
        rows = [{"date": str(d), "cents": c} for d, c in zip(every, prices, strict=True)]
        return {"nights": rows, "total_cents": sum(prices) * 114 // 100}

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

    def cancel_stay(self, confirmation_number: str) -> Outputs:
        cancelled = self.stays.pop(self.stay(confirmation_number).number)
        return {"refund_cents": nightly_cents(cancelled.hotel_id, cancelled.room_type, cancelled.check_in)}

    def request_late_checkout(self, confirmation_number: str, hour: int) -> Outputs:
        stay = self.stay(confirmation_number)
        latest = pick((11, 13, 16, 18), stay.hotel_id, stay.check_out)
        until = min(hour, latest)
        self.stays[stay.number] = replace(stay, checkout_hour=until)
        decision = "GRANTED" if until == hour else "REFUSED" if until == 11 else "PARTLY"
        fee = ROOM_CENTS[stay.room_type] // 2 if until > 14 else 0
        return {"decision": decision, "until_hour": until, "fee_cents": fee}

    def get_folio(self, confirmation_number: str, include_taxes: bool = False) -> Outputs:
        stay = self.stay(confirmation_number)
        every = [date.fromordinal(stay.check_in.toordinal() + n) for n in range(stay.nights)]
        nights = [(d, nightly_cents(stay.hotel_id, stay.room_type, d)) for d in every]
        taxes = sum(cents for _, cents in nights) * 14 // 100
        lines = [{"date": str(d), "text": "Room", "cents": cents} for d, cents in nights]
        if include_taxes:
            lines.append({"date": str(stay.check_out), "text": "Taxes", "cents": taxes})
        return {"lines": lines, "balance_cents": sum(cents for _, cents in nights[1:]) + taxes}

    def request_housekeeping(self, confirmation_number: str, item: str, quantity: int = 1) -> Outputs:
        return {"minutes": number(5, 40, self.stay(confirmation_number).number, item, quantity)}
