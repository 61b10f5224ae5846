"""Designers' requests for vendors. An administrator connects the address or declines."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models.vendors import Endpoint

MAX_TEXT_LENGTH = 2_000


class RequestState(models.TextChoices):
    WAITING = "waiting", _("Waiting")
    APPROVED = "approved", _("Connected")
    DECLINED = "declined", _("Declined")


class VendorRequest(models.Model):
    """A request. `address`: the normalized `url`, by which requests and endpoints are compared."""

    protocol = models.CharField(_("Protocol"), max_length=20)
    url = models.CharField(
        _("Address"),
        max_length=2048,
        help_text=_(
            "The address of the vendor's tools, without keys and passwords. An administrator adds them."
        ),
    )
    address = models.CharField(max_length=2048)
    vendor_name = models.CharField(_("Name of the vendor"), max_length=120)
    reason = models.TextField(
        _("Reason for the request"),
        max_length=MAX_TEXT_LENGTH,
        help_text=_("The administrator who decides reads this."),
    )
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    asked_at = models.DateTimeField(default=timezone.now)
    state = models.CharField(max_length=10, choices=RequestState.choices, default=RequestState.WAITING)
    answer = models.TextField(_("Reason"), max_length=MAX_TEXT_LENGTH, blank=True)
    answered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    answered_at = models.DateTimeField(null=True)
    endpoint = models.ForeignKey(Endpoint, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-id"]
        verbose_name = "vendor request"
        constraints = [
            models.UniqueConstraint(
                fields=["protocol", "address"],
                condition=models.Q(state="waiting"),
                name="one_waiting_request_per_address",
            )
        ]

    def __str__(self) -> str:
        return self.vendor_name

    @property
    def path(self) -> str:
        """Return the path of the page of the list that has this request."""
        return f"/vendor-requests/?request={self.pk}#request-{self.pk}"

    @property
    def is_waiting(self) -> bool:
        return self.state == RequestState.WAITING

    @property
    def live_endpoint(self) -> Endpoint | None:
        """The connected endpoint that answered it, if it still exists. Reads its vendor."""
        endpoint = self.endpoint
        return endpoint if endpoint and not endpoint.removed_at and not endpoint.vendor.removed_at else None
