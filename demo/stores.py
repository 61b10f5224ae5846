"""Bramble's stores: where they are, when they open, what is on the shelf."""

from dataclasses import dataclass
from datetime import date

from demo.calls import CannotDoError, day
from demo.invented import number, pick, today
from demo.signatures import Outputs, choice, data, flag, text, tool, whole


@dataclass(frozen=True, slots=True, order=True)
class Store:
    id: str
    name: str
    address: str
    services: tuple[str, ...]

    def hours(self, on: date) -> tuple[str, str]:
        if "OPEN_ALL_NIGHT" in self.services:
            return "00:00", "24:00"
        return ("10:00", "18:00") if on.weekday() == 6 else ("08:00", "21:00")


STORES = (
    Store("OMA-1", "Bramble Dundee", "4911 Underwood Ave, Omaha, NE", ("CLINIC", "DRIVE_THROUGH")),
    Store("OMA-2", "Bramble Old Market", "1015 Howard St, Omaha, NE", ("COMPOUNDING",)),
    Store(
        "OMA-3", "Bramble West Center", "13203 West Center Rd, Omaha, NE", ("DRIVE_THROUGH", "OPEN_ALL_NIGHT")
    ),
    Store("LNK-1", "Bramble Haymarket", "801 Q St, Lincoln, NE", ("CLINIC",)),
    Store("DSM-1", "Bramble East Village", "425 East Grand Ave, Des Moines, IA", ("CLINIC", "DRIVE_THROUGH")),
    Store("CBF-1", "Bramble Council Bluffs", "20 Pearl St, Council Bluffs, IA", ()),
)


def store_with(store_id: str) -> Store:
    found = next((s for s in STORES if s.id == store_id), None)
    if found is None:
        raise CannotDoError("store_not_found", f"There is no store {store_id}; find_stores gives the ids.")
    return found


class Stores:
    @tool(
        "63c0dfcf-99df-417f-9d81-ad11ddd9bd1b",
        "Stores near a place.",
        tags=("stores",),
        inputs=(
            text("near", "ZIP code or town."),
            whole("radius_miles", low=1, high=100, optional=True),
            choice(
                "service",
                "Only stores that have it.",
                {"DRIVE_THROUGH": "Pickup from the car.", "CLINIC": "A clinic with a nurse practitioner."},
                widened={2: {"COMPOUNDING": "Medicines made to order.", "OPEN_ALL_NIGHT": "Never closes."}},
                optional=True,
            ),
        ),
        outputs=(data("stores", "Nearest first."), text("nearest_store_id", "Absent if there is none.")),
    )
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

    @tool(
        "9e5108ae-602b-4274-9343-461aec5e7451",
        "Opening hours of a store's pharmacy counter, holidays included.",
        tags=("stores",),
        inputs=(
            text("store_id"),
            text("date", "YYYY-MM-DD; today if left out.", optional=True),
        ),
        outputs=(
            text("opens_at", "HH:MM, local time"),
            text("closes_at", "HH:MM, local time"),
            flag("closed_all_day"),
        ),
    )
    def get_store_hours(self, store_id: str, date: str = "") -> Outputs:
        store = store_with(store_id)
        when = day(date, "date") if date else today()
        if (when.month, when.day) in {(12, 25), (1, 1)} and "OPEN_ALL_NIGHT" not in store.services:
            return {"closed_all_day": True}
        opens, closes = store.hours(when)
        return {"opens_at": opens, "closes_at": closes, "closed_all_day": False}

    @tool(
        "a0403d33-a68c-4b49-9ba4-afa4b6f601c9",
        "Whether a store has a medicine on the shelf. Updated every fifteen minutes.",
        tags=("stores", "prescriptions"),
        inputs=(text("store_id"), text("drug_name"), text("strength", optional=True)),
        outputs=(
            choice(
                "availability",
                "",
                {
                    "IN_STOCK": "Enough for a month.",
                    "LOW": "A few days' supply.",
                    "ORDER": "Comes the next working day.",
                },
            ),
        ),
    )
    def check_stock(self, store_id: str, drug_name: str, strength: str = "") -> Outputs:
        return {
            "availability": pick(("IN_STOCK", "LOW", "ORDER"), store_with(store_id).id, drug_name, strength)
        }
