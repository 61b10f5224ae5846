"""Hubwright Cycles: a workshop that lends, mends and builds bicycles."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from demo.calls import CannotDoError, day
from demo.fake_data import number, pick, today
from demo.worlds import world

WORLD = world("hubwright")
RECORDS = WORLD["records"]
KINDS: list[str] = RECORDS["kinds"]
FAULTS: dict[str, int] = RECORDS["fault_cents"]
PARTS: list[str] = RECORDS["parts"]
DOCUMENT: dict[str, Any] = WORLD["document"]

KEY = "spanner-and-chain"


@dataclass(frozen=True, slots=True)
class Bike:
    number: str
    kind: str
    is_electric: bool
    frame_cm: int

    def as_document(self) -> dict[str, Any]:
        out = number(0, 3, self.number, today()) == 0
        return {
            "number": self.number,
            "kind": self.kind,
            "electric": self.is_electric,
            "frame_cm": self.frame_cm,
            "out": out,
        }


BIKES = tuple(
    Bike(f"HC-{n}", KINDS[n % len(KINDS)], number(0, 2, n, "electric") == 0, number(46, 62, n, "frame"))
    for n in range(101, 125)
)


class Workshop:
    """Answers to operations, by their arguments. Rentals and repairs live in memory only."""

    def __init__(self) -> None:
        self.rentals: dict[str, dict[str, Any]] = {}
        self.repairs: dict[str, dict[str, Any]] = {}

    def opening_hours(self, date: str) -> dict[str, Any]:
        when = day(date, "date")
        if when.weekday() == 6:
            return {"date": date, "open": False}
        return {
            "date": date,
            "open": True,
            "from": "08:30",
            "until": "18:00" if when.weekday() < 5 else "14:00",
        }

    def find_bikes(
        self,
        kinds: list[str] | None = None,
        electric: bool | None = None,
        frame: dict[str, int] | None = None,
        limit: int = 10,
    ) -> list[dict[str, Any]]:
        low, high = (frame or {}).get("min", 0), (frame or {}).get("max", 999)
        fits = [
            bike
            for bike in BIKES
            if bike.kind in (kinds or KINDS)
            and electric in (None, bike.is_electric)
            and low <= bike.frame_cm <= high
        ]
        return [bike.as_document() for bike in fits[:limit]]

    def show_bike(self, bike: str) -> dict[str, Any]:
        match = next((candidate for candidate in BIKES if candidate.number == bike), None)
        if match is None:
            raise CannotDoError("no_bike", f"There is no bike {bike}. Numbers run from HC-101 to HC-124.")
        return match.as_document()

    def rent_bike(
        self, bike: str, days: int, name: str, helmet: bool = False, request_id: str = ""
    ) -> dict[str, Any]:
        if self.show_bike(bike)["out"]:
            raise CannotDoError("bike_is_out", f"{bike} is out today.")
        rental = f"R-{request_id or len(self.rentals) + 1}"
        price = days * number(900, 1_900, bike) + (300 if helmet else 0)
        due = str(today() + timedelta(days=days))
        fresh = {"id": rental, "bike": bike, "name": name, "due": due, "price_cents": price, "helmet": helmet}
        return self.rentals.setdefault(rental, fresh)

    def show_rental(self, rental: str) -> dict[str, Any]:
        if rental not in self.rentals:
            raise CannotDoError("no_rental", f"There is no rental {rental}.")
        return self.rentals[rental]

    def extend_rental(self, rental: str, days: int) -> dict[str, Any]:
        current_rental = self.show_rental(rental)
        current_rental["due"] = str(day(current_rental["due"], "due") + timedelta(days=days))
        return current_rental

    def return_bike(self, rental: str) -> None:
        self.show_rental(rental)
        del self.rentals[rental]

    def list_repairs(self, state: str | None = None) -> dict[str, Any]:
        repairs = [repair for repair in self.repairs.values() if state in (None, repair["state"])]
        return {"repairs": repairs, "count": len(repairs)}

    def book_repair(self, body: dict[str, Any]) -> dict[str, Any]:
        fault = body.get("fault") or pick(tuple(FAULTS), body.get("says", ""))
        ticket = f"T-{len(self.repairs) + 1}"
        repair = {
            "ticket": ticket,
            "fault": fault,
            "price_cents": FAULTS[fault],
            "state": "waiting_for_approval",
        }
        return self.repairs.setdefault(ticket, repair)

    def approve_repair(self, ticket: str, approved: bool, limit_cents: int | None = None) -> dict[str, Any]:
        repair = self.repairs.get(ticket)
        if repair is None:
            raise CannotDoError("no_repair", f"There is no repair {ticket}.")
        is_dear = limit_cents is not None and repair["price_cents"] > limit_cents
        repair["state"] = "on_stand" if approved and not is_dear else "done"
        return repair

    def add_photo(self, ticket: str, photo: bytes = b"") -> None:
        if ticket not in self.repairs:
            raise CannotDoError("no_repair", f"There is no repair {ticket}.")
        self.repairs[ticket]["photo_bytes"] = len(photo)

    def find_parts(self, words: list[str]) -> list[dict[str, Any]]:
        parts = [part for part in PARTS if all(word.lower() in part for word in words)]
        return [
            {"part": part, "price_cents": number(300, 4_900, part), "left": number(0, 40, part)}
            for part in parts
        ]

    def order_parts(self, part: str, count: int, note: str = "") -> dict[str, Any]:
        if part not in PARTS:
            raise CannotDoError("no_part", f"There is no part called “{part}”.")
        return {"order": f"O-{number(1000, 9999, part, count, note)}", "part": part, "count": count}

    def quote_build(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the price of an assembly, which may contain assemblies."""
        parts = self._parts_in(body)
        return {"parts": len(parts), "price_cents": sum(number(500, 9_000, part) for part in parts)}

    def _parts_in(self, assembly: dict[str, Any]) -> list[str]:
        below = [part for inner in assembly.get("holds", []) for part in self._parts_in(inner)]
        return [str(assembly.get("name", "part")), *below]

    def takings(self, date: str) -> dict[str, Any]:
        return {"date": date, "cents": number(20_000, 190_000, date)}
