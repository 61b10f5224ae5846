"""Bramble's stores: addresses, opening hours and stock."""

from dataclasses import dataclass
from datetime import date

from demo.calls import CannotDoError, day
from demo.fake_data import number, pick, today
from demo.signatures import Outputs
from demo.worlds import world

WORLD = world("bramble-pharmacy")


@dataclass(frozen=True, slots=True, order=True)
class Branch:
    id: str
    name: str
    address: str
    services: list[str]

    def hours(self, on: date) -> tuple[str, str]:
        if "OPEN_ALL_NIGHT" in self.services:
            return "00:00", "24:00"
        return ("10:00", "18:00") if on.weekday() == 6 else ("08:00", "21:00")


STORES = [Branch(**row) for row in WORLD["records"]["stores"]]


def store_with(store_id: str) -> Branch:
    store = next((s for s in STORES if s.id == store_id), None)
    if store is None:
        raise CannotDoError("store_not_found", f"There is no store {store_id}; find_stores gives the ids.")
    return store


class Stores:
    world = WORLD

    def find_stores(self, near: str, radius_miles: int = 25, service: str = "") -> Outputs:
        distances = sorted(
            (number(1, 40, near, s.id), s) for s in STORES if not service or service in s.services
        )
        rows = [
            {"store_id": s.id, "name": s.name, "address": s.address, "miles": miles}
            for miles, s in distances
            if miles <= radius_miles
        ]
        return {"stores": rows, **({"nearest_store_id": rows[0]["store_id"]} if rows else {})}

    def get_store_hours(self, store_id: str, date: str = "") -> Outputs:
        store = store_with(store_id)
        when = day(date, "date") if date else today()
        if (when.month, when.day) in {(12, 25), (1, 1)} and "OPEN_ALL_NIGHT" not in store.services:
            return {"closed_all_day": True}
        opens, closes = store.hours(when)
        return {"opens_at": opens, "closes_at": closes, "closed_all_day": False}

    def check_stock(self, store_id: str, drug_name: str, strength: str = "") -> Outputs:
        return {
            "availability": pick(("IN_STOCK", "LOW", "ORDER"), store_with(store_id).id, drug_name, strength)
        }
