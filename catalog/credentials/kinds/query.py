from django.utils.translation import gettext_lazy as _

from catalog.credentials.kinds.base import Detail, Kind
from core.outbound.request import OutgoingRequest


class QueryKey(Kind):
    """A key in a query parameter that the vendor names."""

    name, label = "query", _("API key in the address")
    details = (
        Detail(
            "parameter",
            _("Name in the address"),
            help=_(
                "The query parameter with the key. Pegboard hides its value wherever it shows an address."
            ),
            initial="api_key",
            max_length=64,
            is_required=True,
            pattern=r"[A-Za-z0-9._~\[\]$-]{1,64}",
            problem=_("Enter the name of one query parameter, such as api_key."),
        ),
    )

    def apply(self, request: OutgoingRequest) -> None:
        request.add_parameter(self.values["parameter"], self.secret)
