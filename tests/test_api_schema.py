import json

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from pegboard import reference
from pegboard.wsgi import application
from people import tokens
from tests.factories import make_agent, make_endpoint, make_pin, make_tool, make_user, make_vendor

schema = schemathesis.openapi.from_dict(json.loads(reference.document()))
schema.app = application


@pytest.fixture
def seeds(transactional_db) -> dict[str, str]:
    """A few rows to find, and the token of an administrator."""
    make_pin(make_agent(slug="weather"), make_tool(endpoint=make_endpoint(vendor=make_vendor(slug="acme"))))
    admin = make_user()
    _, plain = tokens.issue(admin, actor=None, name="fuzzer", scopes=["admin"])
    return {"Authorization": f"Bearer {plain}"}


@schema.parametrize()
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_reply_is_one_that_the_schema_declares(case, seeds):
    # The schema says less than the rules do (which names are legal, which password is good).
    case.call_and_validate(headers=seeds, excluded_checks=[positive_data_acceptance])
