"""The API driven by its own schema. PEGBOARD_FUZZ=200 asks longer, as `make soak` does."""

import json
import os
import zlib

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from pegboard.web import api_reference
from pegboard.wsgi import application
from people import api_keys
from people.models import KeyScope, Role
from tests.factories import make_agent, make_endpoint, make_pin, make_tool, make_user, make_vendor

schema = schemathesis.openapi.from_dict(json.loads(api_reference.document()))
schema.app = application
EXAMPLES = int(os.environ.get("PEGBOARD_FUZZ", "3"))
# The boundaries of every member take a minute, and ten seconds to work out: the storm `schema` asks them.
schema.config.phases.coverage.enabled = EXAMPLES > 5
# A parameter that breaks the schema by its length may make the whole address too long.
schema.config.checks.negative_data_rejection.expected_statuses.append("414")
# An administrator twice, because no other role gets as far.
CALLERS = (
    (Role.ADMIN, KeyScope.ADMIN),
    (Role.DESIGNER, KeyScope.DESIGN),
    (Role.ADMIN, KeyScope.ADMIN),
    (Role.VIEWER, KeyScope.READ),
)


@pytest.fixture
def callers(transactional_db) -> list[dict[str, str]]:
    """A few rows to find, and the header of each caller."""
    make_pin(make_agent(slug="weather"), make_tool(endpoint=make_endpoint(vendor=make_vendor(slug="acme"))))
    plain = [
        api_keys.issue(make_user(role), actor=None, name="fuzzer", scopes=[scope])[1]
        for role, scope in CALLERS
    ]
    return [{"Authorization": f"Bearer {token}"} for token in plain]


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_reply_is_one_that_the_schema_declares(case, callers):
    # Which caller it is depends on the case alone, so that a failure is found again.
    request_text = repr((case.path_parameters, case.query, case.headers, case.body))
    caller = callers[zlib.crc32(request_text.encode(errors="replace")) % len(callers)]
    # The schema is weaker than the rules (legal names, good passwords).
    case.call_and_validate(headers=caller, excluded_checks=[positive_data_acceptance])


def test_what_stood_before_may_be_anything_null_too():
    """Under `oneOf` null is no value where every value is allowed."""
    members = json.loads(api_reference.document())["components"]["schemas"]["Difference"]["properties"]
    assert {name for name, member in members.items() if member.keys() - {"description"}} == {"path"}
