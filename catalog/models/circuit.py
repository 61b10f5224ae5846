"""Circuit breakers of endpoints and of tools."""

from django.db import models

from catalog.models.tools import Tool
from catalog.models.vendors import Endpoint


class OpenCircuit(models.Model):
    """No request is sent before `open_until`; see catalog/credentials/circuit_breaker.py.

    failures: the number of consecutive sessions in which the vendor was unavailable.
    """

    failures = models.PositiveIntegerField(default=0)
    open_until = models.DateTimeField(null=True)

    class Meta:
        abstract = True


class Circuit(OpenCircuit):
    """The circuit of an endpoint. Failures of runs block runs, and calls of all its tools."""

    endpoint = models.OneToOneField(
        Endpoint, primary_key=True, on_delete=models.CASCADE, related_name="circuit"
    )

    def __str__(self) -> str:
        return f"Circuit of {self.endpoint}"


class ToolCircuit(OpenCircuit):
    """The circuit of a tool. Failures of its calls block only its calls."""

    tool = models.OneToOneField(Tool, primary_key=True, on_delete=models.CASCADE, related_name="circuit")

    def __str__(self) -> str:
        return f"Circuit of {self.tool}"
