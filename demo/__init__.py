"""Small vendors that run on this machine, so that a newcomer has something to connect.

They are separate HTTP servers that know nothing of the product: standard library only, loopback only.
`python -m demo` starts them; `VENDORS` lists them with their ports.
"""

from dataclasses import dataclass
from pathlib import Path

from demo.worlds import FOLDER, world

# The operating procedures of the demo agent: markdown, with tools by their names.
PROCEDURES = Path(__file__).parent / "procedures"


@dataclass(frozen=True, slots=True)
class DemoVendor:
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


VENDORS = tuple(
    sorted(
        (DemoVendor(**world(path.stem)["vendor"]) for path in FOLDER.glob("*.json")),
        key=lambda vendor: vendor.port_offset,
    )
)
