from datetime import UTC, datetime, timedelta, timezone

import pytest

from catalog.models.tools import version_name

SEEN = datetime(2026, 11, 22, 14, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("label", "rewrite", "name"),
    [
        ("2", 0, "2"),
        ("1.10.0-beta", 0, "1.10.0-beta"),
        ("2", 1, "2, rewritten on 22 November 2026"),
        ("2", 3, "2, rewritten 3 times, last on 22 November 2026"),
        ("", 0, "22 November 2026, 14:05"),
    ],
)
def test_a_version_is_named_by_its_label_and_by_the_day_of_a_rewrite(label, rewrite, name):
    assert version_name(label, rewrite, SEEN) == name


def test_days_are_those_of_utc():
    late = SEEN.replace(hour=23).astimezone(timezone(timedelta(hours=5)))
    assert version_name("2", 1, late) == "2, rewritten on 22 November 2026"
