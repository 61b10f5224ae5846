"""The mail server, verified by the public certificate authorities and by those of the installation."""

import smtplib
import ssl

from django.conf import settings
from django.core.mail.backends import smtp
from django.utils.functional import cached_property

from core.outbound.authorities import read_authorities
from core.outbound.sockets import verifying_context


class EmailBackend(smtp.EmailBackend):
    # Django's own, of a conversation that has not come as far as the sign-in.
    _partial_connection: smtplib.SMTP | None

    @cached_property
    def ssl_context(self) -> ssl.SSLContext:
        return verifying_context(read_authorities(settings.CA_FILE))

    def open(self) -> bool | None:
        try:
            return super().open()
        finally:
            if self._partial_connection is not None:
                # Django would leave it open until the next mail.
                self._partial_connection.close()
                self._partial_connection = None
