"""The worlds of the demo vendors as data: who they are, the tools they offer, the records they answer from.

One JSON file for each vendor, by its slug. The code that answers a call is in the vendor's own module.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@cache
def world(slug: str) -> dict[str, Any]:
    """Return the vendor's file, which is read once. demo/signatures.py explains its members."""
    document: dict[str, Any] = json.loads((FOLDER / f"{slug}.json").read_text(encoding="utf-8"))
    return document
