"""Parse the header `Retry-After` (RFC 9110, 10.2.3)."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

DAY = 86_400


def retry_after(header: str) -> float | None:
    """Return the seconds to wait, without a limit; None for a value that is neither seconds nor a date."""
    if re.fullmatch(r"[0-9]{1,12}", header):
        return float(header)
    try:
        when = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
