"""The rows of the catalog: vendors, credentials, runs, tools, findings, the search index, activities and
calls.
"""

from catalog.models.activities import Activity, ActivityCallee, ActivityVersion
from catalog.models.calls import Call, CallId, Example
from catalog.models.circuit import Circuit, ToolCircuit
from catalog.models.configurations import Configuration
from catalog.models.findings import Finding, Likeness, WaitingDecision
from catalog.models.fingerprint_key import FingerprintKey
from catalog.models.kept_replies import KeptReply
from catalog.models.oauth import Grant, SignIn
from catalog.models.pictures import Picture, ToolPicture
from catalog.models.runs import KnownPage, LastReply, Rejection, Run, Withdrawal
from catalog.models.search_index import ToolChange
from catalog.models.searches import RecordedSearch, SearchChoice
from catalog.models.second_looks import OtherAnswer, SecondLook
from catalog.models.sensitive_values import SensitiveValues
from catalog.models.threads import Thread
from catalog.models.tools import ListedDocument, ListFetch, Tool, ToolFetch, ToolVersion
from catalog.models.translations import ToolTexts, Translation
from catalog.models.user_grants import EndpointSecret, EndUser, ProviderClient, UserGrant
from catalog.models.vendor_requests import VendorRequest
from catalog.models.vendors import Credential, Endpoint, EndpointDocument, Vendor
from catalog.models.word_groups import CustomWordGroup

__all__ = [
    "Activity",
    "ActivityCallee",
    "ActivityVersion",
    "Call",
    "CallId",
    "Circuit",
    "Configuration",
    "Credential",
    "CustomWordGroup",
    "EndUser",
    "Endpoint",
    "EndpointDocument",
    "EndpointSecret",
    "Example",
    "Finding",
    "FingerprintKey",
    "Grant",
    "KeptReply",
    "KnownPage",
    "LastReply",
    "Likeness",
    "ListFetch",
    "ListedDocument",
    "OtherAnswer",
    "Picture",
    "ProviderClient",
    "RecordedSearch",
    "Rejection",
    "Run",
    "SearchChoice",
    "SecondLook",
    "SensitiveValues",
    "SignIn",
    "Thread",
    "Tool",
    "ToolChange",
    "ToolCircuit",
    "ToolFetch",
    "ToolPicture",
    "ToolTexts",
    "ToolVersion",
    "Translation",
    "UserGrant",
    "Vendor",
    "VendorRequest",
    "WaitingDecision",
    "Withdrawal",
]
