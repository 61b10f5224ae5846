"""Mail in plain text: one mail for all notices of a short period."""

import logging
import smtplib
from collections import Counter as Tally
from collections.abc import Sequence
from datetime import timedelta
from email.utils import parseaddr
from urllib.parse import urlencode

from django.conf import settings
from django.core import signing
from django.core.mail import EmailMessage, get_connection
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import translation
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext as _

from catalog.notifications import kinds
from catalog.notifications.models import Mail, MailAddress, SendingState
from core.failpoints import failpoint
from core.metrics import Counter
from core.public_url import public_url
from core.stored_sentences import translate_sentence
from core.translatable import mark

logger = logging.getLogger(__name__)

# Longer than the timeout of the mail server, so that two workers never send the same mail at once.
LEASE = timedelta(minutes=2)
BACK_OFF = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 120, 240))
# A mail is read on a phone; the page lists the rest.
MAX_SHOWN = 100
SALT = "catalog.notifications.mail"
SENT = Counter("pegboard_notifications_total", "Attempts to deliver a notification.", ("channel", "outcome"))
SIGNATURE = mark("You receive this mail because you subscribed to it. Change your subscriptions: {url}")


def due() -> QuerySet[Mail]:
    """Return the mails that wait to be sent now, the oldest first."""
    return Mail.objects.filter(state=SendingState.WAITING, next_at__lte=Now()).order_by("next_at", "pk")


def send(mail_id: str) -> None:
    """Send a mail, again with the same Message-ID after a failure. Raises no error of the mail server."""
    # After this claim no notice is added to the mail. If this process dies, another one sends it after the
    # lease.
    if not due().filter(pk=mail_id).update(attempts=F("attempts") + 1, next_at=Now() + LEASE):
        return
    mail = Mail.objects.select_related("user").get(pk=mail_id)
    address = MailAddress.objects.filter(user=mail.user_id, user__is_active=True).first()
    recipient = mail.confirms or (address.address if address and address.confirmed_at else "")
    if not recipient:
        _close_mail(mail, SendingState.FAILED, "There is no confirmed address any more.")
        return
    with translation.override(mail.user.language or settings.LANGUAGE_CODE):
        message = _build_confirmation(mail) if mail.confirms else _build_digest(mail, recipient)
    try:
        # PEGBOARD_MAIL_URL sets the server. No page can change it.
        message.send()
    except (OSError, smtplib.SMTPException) as exc:
        error = "The mail server did not accept the mail. It may be unavailable, or reject this address."
        # The log does not contain the error text of the server, which quotes addresses.
        logger.warning("mail %s was not accepted: %s", mail.pk, type(exc).__name__)
        SENT.add("mail", "failed")
        if mail.attempts > len(BACK_OFF):
            _close_mail(mail, SendingState.FAILED, error)
        else:
            next_at = Now() + BACK_OFF[mail.attempts - 1]
            Mail.objects.filter(pk=mail.pk).update(next_at=next_at, error=error)
        return
    failpoint("mail-sent")
    _close_mail(mail, SendingState.SENT)
    SENT.add("mail", "sent")


def sign_in_at_server() -> None:
    """Connect to the mail server, sign in and leave. Raises OSError or smtplib.SMTPException."""
    connection = get_connection()
    connection.open()
    connection.close()


def _close_mail(mail: Mail, state: SendingState, error: str = "") -> None:
    sent_at = {"sent_at": Now()} if state == SendingState.SENT else {}
    Mail.objects.filter(pk=mail.pk).update(state=state, error=error, **sent_at)


def _build_message(mail: Mail, address: str, subject: str, lines: Sequence[str]) -> EmailMessage:
    # Headers may contain only ASCII.
    host = parseaddr(settings.MAIL_FROM)[1].rpartition("@")[2].encode("idna").decode()
    return EmailMessage(
        subject,
        "\n".join(lines) + "\n",
        settings.MAIL_FROM,
        [address],
        headers={"Message-ID": f"<{mail.pk}@{host}>", "Auto-Submitted": "auto-generated"},
    )


def _build_digest(mail: Mail, address: str) -> EmailMessage:
    """Write the notices in the language of the user, English if none was chosen."""
    notices = list(mail.notices.order_by("told_at", "pk"))
    lines = []
    for notice in notices[:MAX_SHOWN]:
        time = f"{date_format(notice.told_at, 'd M H:i')} UTC" if notice.told_at else ""
        text = [f"  {translate_sentence(notice.says)}"] if notice.says else []
        lines += [f"{time}  {translate_sentence(notice.title)}", *text, f"  {public_url(notice.path)}", ""]
    if (more := len(notices) - MAX_SHOWN) > 0:
        lines += [_("… and {count} more.").format(count=number_format(more, force_grouping=True)), ""]
    page = public_url(reverse("notifications"))
    # A German noun keeps its capital.
    is_english = translation.get_language() == settings.LANGUAGE_CODE
    labels = {
        event: str(label)[:1].lower() + str(label)[1:] if is_english else str(label)
        for event, label in kinds.choices()
    }
    counts = Tally(notice.event for notice in notices)
    parts = [
        _("{count} times {event}").format(
            count=number_format(count, force_grouping=True), event=labels.get(event, event)
        )
        for event, count in counts.most_common()
    ]
    subject = translate_sentence(notices[0].title) if len(notices) == 1 else ", ".join(parts)
    return _build_message(
        mail, address, f"Pegboard: {subject}"[:200], [*lines, "-- ", _(SIGNATURE).format(url=page)]
    )


def _build_confirmation(mail: Mail) -> EmailMessage:
    query = urlencode({"token": token_for(mail.user_id, mail.confirms)})
    url = f"{public_url(reverse('notification-confirm'))}?{query}"
    lines = (
        _("{user} wants to get mail from Pegboard at this address.").format(user=mail.user),
        "",
        _("If that is you, sign in and confirm it within a day:"),
        url,
        "",
        _("If not, do nothing. There will be no more mail."),
    )
    return _build_message(mail, mail.confirms, _("Pegboard: is this your address?"), lines)


def token_for(user_id: int, address: str) -> str:
    return signing.dumps([user_id, address], salt=SALT)


def address_in(token: str, user_id: int) -> str:
    """Return the address that the token confirms, or "" if the token is too old or belongs to another
    user."""
    try:
        owner, address = signing.loads(token, salt=SALT, max_age=timedelta(days=1))
    except (signing.BadSignature, ValueError, TypeError):
        return ""
    return str(address) if owner == user_id else ""
