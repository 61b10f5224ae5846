"""One endpoint of one protocol, read end to end, with all that a bad reading must leave alone."""

import json
from functools import partial
from typing import Any

from django.core import serializers
from django.test import Client
from rest_framework.test import APIClient

import protocols
from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Finding, KnownPage, Rejection, Run, Tool, ToolVersion, Withdrawal
from catalog.models.runs import Trigger
from catalog.review import inspector
from core.outbound.errors import ProtocolError
from core.outbound.limits import DEFAULT_LIMITS, KIB, Limits
from designer.models import Pin
from designer.pins import pins
from people.models import Role, User
from protocols.list_pages import NoKnownPages
from tests.factories import make_agent, make_endpoint, make_pin
from tests.hostile.dialects import Dialect
from tests.hostile.shop import Shop
from tests.hostile_vendor import HostileVendor
from tests.pages import text_of

SECRET = "canary-0f5b2c9e7d"
# The deadlines of a vendor that keeps us waiting; nothing else is ever close to one.
SHORT = Limits(request=0.8, body=256 * KIB, session=2, ratio_from=KIB, backoff=())
USUAL = Limits(body=256 * KIB, ratio_from=KIB, backoff=(0.001,))
KEPT = (Tool, ToolVersion, Finding, Withdrawal, KnownPage, Pin)


class Bench:
    """`shop` is what the vendor does; `endpoint` has been read well once.

    One tool is pinned: by a row, or `through_the_product` with all that follows, as invariants ask for.
    """

    def __init__(
        self,
        vendor: HostileVendor,
        dialect: Dialect,
        admin: User,
        *,
        count: int = 6,
        through_the_product: bool = False,
    ) -> None:
        self.vendor = vendor
        self.dialect = dialect
        self.admin = admin
        self.shop = Shop(dialect, [dialect.tool(number) for number in range(1, count + 1)])
        vendor.script = self.shop
        root = vendor.url + dialect.root
        url = root + (dialect.list_path if dialect.name == "openapi" else "")
        credential = credential_operations.create_credential(
            actor=admin, name=f"Key of {dialect.name}", kind="bearer", url=url, secret=SECRET
        )
        self.endpoint = make_endpoint(
            protocol=dialect.name,
            url=url,
            settings=dict(dialect.settings),
            credential=credential,
            requests_per_second=10_000,
        )
        self.pages = Client()
        self.pages.force_login(admin)
        self.rest = APIClient()
        self.rest.force_login(admin)
        run = self.enumerate()
        assert run.status == "succeeded", run.error_message
        tools = Tool.objects.filter(endpoint=self.endpoint).order_by("pk")
        if through_the_product:  # which holds a name that agents use from another vendor
            pins.pin_tool(make_agent(), actor=admin, tool=tools.filter(stopped=None)[0])
        else:
            make_pin(make_agent(), tools[0])

    def widen(self) -> None:
        """Two hundred tools a page, for long lists."""
        self.shop.page_size = 200
        if self.dialect.name in ("a2t", "acp"):
            self.endpoint.settings = dict(self.endpoint.settings) | {"page_size": 200}
            self.endpoint.save()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.vendor.port}"

    def enumerate(self, limits: Limits = DEFAULT_LIMITS) -> Run:
        """Run the enumeration as a worker does, with the work that follows a success."""
        run = enumeration_runs.request_run(self.endpoint, trigger=Trigger.COMMAND)
        usual = sessions.open_session
        sessions.open_session = partial(usual, limits=limits)
        try:
            run = enumeration_runs.perform(run.pk)
        finally:
            sessions.open_session = usual
        if run.status == "succeeded":
            inspector.inspect_pending(self.endpoint.pk)
        self.endpoint.refresh_from_db()
        return run

    def hears(self, limits: Limits = DEFAULT_LIMITS) -> tuple[str, str]:
        """Reads as a run does and records nothing: the code and sentence that the run would end with."""
        protocol = protocols.get(self.dialect.name)(self.endpoint.settings)
        try:
            with sessions.open_session(self.endpoint, limits=limits) as session:
                for page in protocol.enumerate(session, NoKnownPages()):
                    del page
        except ProtocolError as error:
            return error.code, error.message
        return "", ""

    def dump(self, *, pages: bool = True) -> str:
        """Return all stored data of the vendor, byte for byte; on request without remembered pages."""
        models = [model for model in KEPT if pages or model is not KnownPage]
        return serializers.serialize(
            "json", [row for model in models for row in model.objects.order_by("pk")]
        )

    def run_page(self, run: Run) -> str:
        return text_of(self.pages.get(f"/runs/{run.pk}/"))

    def run_body(self, run: Run) -> dict[str, Any]:
        return self.rest.get(f"/api/v1/runs/{run.pk}/").json()

    def is_told(self, run: Run, code: str, sentence: str) -> None:
        """The administrator reads the sentence on the run's page, and in REST."""
        page_text = self.run_page(run)
        assert on_the_page(sentence) in page_text, (sentence, page_text)
        assert code in page_text
        body = self.run_body(run)
        assert body["error"] == {"code": code, "message": sentence}
        assert SECRET not in page_text + as_json(body)


def rejections(run: Run) -> list[tuple[str, str]]:
    return list(Rejection.objects.filter(run=run).values_list("tool", "code"))


def as_admin() -> User:
    return User.objects.filter(role=Role.ADMIN).first() or User.objects.create_user(
        "admin", "correct horse battery", role=Role.ADMIN
    )


def on_the_page(sentence: str) -> str:
    """A sentence as `text_of` gives it back: white space in a row is one."""
    return " ".join(sentence.split())


def as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
