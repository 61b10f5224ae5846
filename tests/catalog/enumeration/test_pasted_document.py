"""An OpenAPI document that is saved by one process and read by another, as a worker reads it."""

import json

import pytest

from catalog.models import Run, Tool
from catalog.vendors import operations as vendor_operations
from people.models import Role
from tests import forked_python
from tests.factories import make_user, make_vendor
from tests.protocols.openapi.documents import document, operation

pytestmark = pytest.mark.django_db(transaction=True)


def test_another_process_reads_a_pasted_document_as_often_as_it_is_asked(process_environment):
    pasted = document({"/a": {"get": operation("a")}, "/b": {"get": operation("b")}})
    endpoint = vendor_operations.create_endpoint(
        actor=make_user(Role.ADMIN),
        protocol="openapi",
        url="http://127.0.0.1:9/v1",
        settings={"document": json.dumps(pasted)},
        vendor=make_vendor(),
    )
    Run.objects.all().delete()

    for _ in range(2):
        forked_python.run("manage.py", "enumerate", str(endpoint.pk), env=process_environment)

    runs = Run.objects.order_by("pk").values_list("status", "error_code")
    assert list(runs) == [("succeeded", "")] * 2
    assert sorted(Tool.objects.values_list("tool_id", flat=True)) == ["a", "b"]
