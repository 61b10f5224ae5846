from django.utils.translation import gettext_lazy as _

from catalog.credentials.kinds.base import Detail, Kind
from core.outbound.request import OutgoingRequest

_SET_BY_HTTP = "host|content-length|transfer-encoding|connection|content-type|cookie"


class HeaderKey(Kind):
    """A key in a header that the vendor names."""

    name, label = "header", _("API key in a header")
    details = (
        Detail(
            "header",
            _("Header name"),
            initial="X-Api-Key",
            max_length=64,
            is_required=True,
            pattern=rf"(?i:(?!(?:{_SET_BY_HTTP})\Z))[A-Za-z0-9!#$%&'*+.^_`|~-]{{1,64}}",
            problem=_("Enter the name of one request header, such as X-Api-Key."),
        ),
    )

    def apply(self, request: OutgoingRequest) -> None:
        request.set_header(self.values["header"], self.secret)
