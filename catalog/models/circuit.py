"""What is known about an endpoint that does not answer. No row: nothing is."""

from django.db import models

from catalog.models.vendors import Endpoint


class Circuit(models.Model):
    """Calls to the endpoint are answered here, unsent, before `open_until`; catalog/pacing.py says when.

    `failures` counts conversations in a row that found the vendor unavailable.
    """

    endpoint = models.OneToOneField(
        Endpoint, primary_key=True, on_delete=models.CASCADE, related_name="circuit"
    )
    failures = models.PositiveIntegerField(default=0)
    open_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"Circuit of {self.endpoint}"
