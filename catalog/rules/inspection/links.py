"""Links out of a tool's text to hosts that are not its vendor's. Pure."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from catalog.rules.inspection.alarms import Alarm
from protocols.signature import Signature

HOST = re.compile(r"https?://([A-Za-z0-9.-]{1,253})")
# Under these, with a country's ending, names are sold to the public: example.co.uk.
SHARED = frozenset({"ac", "co", "com", "edu", "gob", "gov", "go", "ne", "net", "or", "org"})
MAX_NAMED = 3


def domain(host: str) -> str:
    """The part of a host's name that its owner registered, about; "" for addresses and bare names."""
    labels = host.lower().strip(".").split(".")
    if len(labels) < 2 or labels[-1].isdigit():
        return ""
    is_shared = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in SHARED
    return ".".join(labels[-3:] if is_shared else labels[-2:])


def foreign(signature: Signature, homes: Iterable[str]) -> Alarm | None:
    """`homes` are addresses of the vendor. Nothing is foreign to a vendor without a name."""
    own = {domain(urlsplit(home).hostname or "") for home in homes} - {""}
    texts = [signature.description, *(each.description for each in signature.inputs)]
    said = {domain(host) for text in texts if "://" in text for host in HOST.findall(text)} - {""}
    others = sorted(said - own)
    if not own or not others:
        return None
    more = f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
    named = ", ".join(others[:MAX_NAMED])
    return Alarm("FOREIGN_LINK", "low", f"It links to {named}{more}, outside of {', '.join(sorted(own))}.")
