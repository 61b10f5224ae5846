"""When to ask again: an endpoint whose enumeration runs are turned away, and a tool whose calls are."""

from django.db import models

from catalog.models.tools import Tool
from catalog.models.vendors import Endpoint


class OpenCircuit(models.Model):
    """Nothing is sent before `open_until`; catalog/credentials/circuit_breaker.py says when.

    `failures` counts conversations in a row that found the vendor unavailable.
    """

    failures = models.PositiveIntegerField(default=0)
    open_until = models.DateTimeField(null=True)

    class Meta:
        abstract = True


class Circuit(OpenCircuit):
    """Of an endpoint: what a run met keeps back runs, and the calls of all its tools."""

    endpoint = models.OneToOneField(
        Endpoint, primary_key=True, on_delete=models.CASCADE, related_name="circuit"
    )

    def __str__(self) -> str:
        return f"Circuit of {self.endpoint}"


class ToolCircuit(OpenCircuit):
    """Of one tool: what its calls met keeps back its own calls, and nothing else."""

    tool = models.OneToOneField(Tool, primary_key=True, on_delete=models.CASCADE, related_name="circuit")

    def __str__(self) -> str:
        return f"Circuit of {self.tool}"
