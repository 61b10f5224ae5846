"""Small vendors that run on this machine, so that a newcomer has something to connect.

They are separate HTTP servers that know nothing of the product: standard library only, loopback
only. `python -m demo` starts them; `VENDORS` says who they are and where they listen.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vendor:
    slug: str
    name: str
    homepage: str
    blurb: str
    port_offset: int
    protocol: str = "a2t"
    path: str = ""
    publishes: bool = False
    has_members: bool = False

    def url(self, port_base: int) -> str:
        """The address to enumerate. In a browser, the root of its host shows a page about the vendor."""
        return f"http://127.0.0.1:{port_base + self.port_offset}{self.path}"


VENDORS = (
    Vendor(
        slug="bramble-pharmacy",
        name="Bramble Pharmacy",
        homepage="https://bramble-pharmacy.example/",
        blurb="A family of pharmacies in Nebraska and Iowa: prescriptions, vaccinations, clinic visits.",
        port_offset=0,
        publishes=True,
    ),
    Vendor(
        slug="fairweather",
        name="Fairweather",
        homepage="https://fairweather.example/",
        blurb="Observations, forecasts and warnings for any town, coast or slope.",
        port_offset=1,
        has_members=True,
    ),
    Vendor(
        slug="northwind",
        name="Northwind Air & Stay",
        homepage="https://northwind.example/",
        blurb="An airline and its hotels: flights, seats, bags, claims, rooms, rates and folios.",
        port_offset=2,
    ),
    Vendor(
        slug="quillmoor",
        name="Quillmoor Bank",
        homepage="https://quillmoor-bank.example/",
        blurb="Accounts, payments, cards and rates, some of which a customer has to allow first.",
        port_offset=3,
        protocol="oxp",
    ),
    Vendor(
        slug="bellwether",
        name="Bellwether",
        homepage="https://bellwether.example/",
        blurb="Two agents: one writes letters and posts them when told to, one plans journeys by train.",
        port_offset=4,
        protocol="acp",
    ),
    Vendor(
        slug="tiderow",
        name="Tiderow Museum",
        homepage="https://tiderow-museum.example/",
        blurb="A museum by the sea: ships, clocks, toys and maps, tickets and visits.",
        port_offset=5,
        protocol="mcp",
        path="/mcp",
    ),
    Vendor(
        slug="hubwright",
        name="Hubwright Cycles",
        homepage="https://hubwright-cycles.example/",
        blurb="A workshop that lends, mends and builds bicycles.",
        port_offset=6,
        protocol="openapi",
        path="/openapi.json",
    ),
)
