from catalog.models.findings import Finding
from catalog.models.runs import KnownPage, Rejection, Run, Withdrawal
from catalog.models.tools import Tool, ToolVersion
from catalog.models.vendors import Credential, Endpoint, Vendor

__all__ = [
    "Credential",
    "Endpoint",
    "Finding",
    "KnownPage",
    "Rejection",
    "Run",
    "Tool",
    "ToolVersion",
    "Vendor",
    "Withdrawal",
]
