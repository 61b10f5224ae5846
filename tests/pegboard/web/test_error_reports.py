"""Django's reports of unexpected errors, as they are mailed or shown with PEGBOARD_DEBUG."""

import sys

import pytest
from django.test import RequestFactory
from django.views.debug import get_exception_reporter_class

from core.encryption import Secret

CANARY = "-".join(("kAnarY", "vogel", "17"))  # reports quote lines of code


def report(request) -> str:
    def fails(client_secret: str, wrapped: Secret) -> None:
        headers = {"Authorization": f"Bearer {client_secret}"}
        raise ValueError(f"the vendor said no to {len(headers)} header")

    try:
        fails(CANARY, Secret(CANARY))
    except ValueError:
        reporter = get_exception_reporter_class(request)(request, *sys.exc_info(), is_email=False)
    return reporter.get_traceback_html() + reporter.get_traceback_text()


@pytest.mark.parametrize("debug", [False, True])
def test_report_shows_where_it_happened_and_no_secret(settings, debug):
    settings.DEBUG = debug
    settings.DATABASE_DSN = f"postgresql://pegboard:{CANARY}@db/pegboard"
    settings.BROKER = f"redis://:{CANARY}@cache/0"
    settings.REPLICAS = {"first": {"DSN": CANARY, "address": f"redis://:{CANARY}@cache/1"}}
    settings.SECRET_KEY = CANARY * 4
    settings.KEYS = [f"k1:{CANARY}"]
    request = RequestFactory().post(
        f"/credentials/callback/?code={CANARY}&state={CANARY}",
        {"name": CANARY, "secret": CANARY},
        headers={"Authorization": f"Bearer {CANARY}", "Referer": f"https://x.example/?code={CANARY}"},
        RAW_URI=f"/credentials/callback/?code={CANARY}",
    )
    request.COOKIES["sessionid"] = CANARY

    report_text = report(request)

    assert CANARY not in report_text
    for kept_text in (
        "ValueError",
        "the vendor said no to 1 header",
        "in fails",
        "client_secret",
        "/credentials/callback/",
    ):
        assert kept_text in report_text
    assert "redis://…@cache/0" in report_text


def test_report_of_a_command_shows_no_secret():
    report_text = report(None)

    assert CANARY not in report_text
    assert "the vendor said no" in report_text
