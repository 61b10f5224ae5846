"""Links in a tool's texts to hosts of others than its vendor. Pure."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from catalog.rules.inspection.alarms import Alarm
from protocols.signature import Signature

HOST = re.compile(r"https?://([A-Za-z0-9.-]{1,253})")
# Second-level labels under which domains are sold, as in example.co.uk.
SHARED = frozenset({"ac", "co", "com", "edu", "gob", "gov", "go", "ne", "net", "or", "org"})
MAX_NAMES = 3


def domain(host: str) -> str:
    """Return the registered domain of a host name, by rule of thumb, or "" for addresses and bare names."""
    labels = host.lower().strip(".").split(".")
    if len(labels) < 2 or labels[-1].isdigit():
        return ""
    is_shared = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in SHARED
    return ".".join(labels[-3:] if is_shared else labels[-2:])


def find_foreign_links(signature: Signature, homes: Iterable[str]) -> Alarm | None:
    """Return an alarm about links to other domains than those of `homes`, the addresses of the vendor."""
    vendor_domains = {domain(urlsplit(home).hostname or "") for home in homes} - {""}
    texts = [signature.description, *(parameter.description for parameter in signature.inputs)]
    linked_domains = {domain(host) for text in texts if "://" in text for host in HOST.findall(text)} - {""}
    others = sorted(linked_domains - vendor_domains)
    if not vendor_domains or not others:
        return None
    more = f" and {len(others) - MAX_NAMES} more" if len(others) > MAX_NAMES else ""
    names = ", ".join(others[:MAX_NAMES])
    return Alarm(
        "FOREIGN_LINK", "low", f"It links to {names}{more}, outside of {', '.join(sorted(vendor_domains))}."
    )
