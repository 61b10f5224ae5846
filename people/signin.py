"""How many wrong passwords a person may type before Pegboard asks them to wait."""

from datetime import timedelta

from django.utils import timezone

from people.models import FailedSignIn

MOST = 10
WINDOW = timedelta(minutes=15)
WAIT = "Too many wrong passwords. Wait 15 minutes, then try again."


def must_wait(username: str, address: str) -> bool:
    since = timezone.now() - WINDOW
    return FailedSignIn.objects.filter(**_who(username, address), at__gt=since).count() >= MOST


def note_failure(username: str, address: str) -> None:
    """Also forgets every failure that no longer counts, so that the table stays small."""
    FailedSignIn.objects.filter(at__lte=timezone.now() - WINDOW).delete()
    FailedSignIn.objects.create(**_who(username, address))


def forget(username: str, address: str) -> None:
    FailedSignIn.objects.filter(**_who(username, address)).delete()


def _who(username: str, address: str) -> dict[str, str]:
    """By account and address: a stranger can lock out neither everybody nor one person everywhere."""
    return {"username": username.casefold()[:150], "address": address[:45]}
