import os
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from catalog import search
from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Run, Tool, Vendor
from catalog.models.runs import Trigger
from catalog.review import inspector
from catalog.translations import scan, stored, tool_texts
from catalog.vendors import operations as vendor_operations
from demo import VENDORS
from demo import DemoVendor as DemoVendor
from execution.calls import examples
from pegboard.local import demo_agents
from pegboard.ops import logs
from people import audit, users
from people.models import Role, User

# Arguments with which a tool succeeds at every call: vendor, tool, name of the example.
EXAMPLES: dict[tuple[str, str, str], dict[str, Any]] = {
    ("bramble-pharmacy", "get_prescription", "Lisinopril"): {"prescription_number": "7043118"},
    ("bramble-pharmacy", "check_drug_interactions", "Two medicines"): {"medicines": "lisinopril, ibuprofen"},
    ("bramble-pharmacy", "find_stores", "Omaha"): {"near": "68102"},
    ("fairweather", "lookup_current_weather", "Omaha"): {"City": "Omaha"},
    ("quillmoor", "Rates_ExchangeRate", "Euro into pounds"): {"sold": "EUR", "bought": "GBP"},
    ("tiderow", "price_tickets", "A family"): {
        "visitors": [{"fare": "ADULT", "count": 2}, {"fare": "CHILD", "count": 1}]
    },
    ("hubwright", "find_bikes", "With a motor"): {"electric": True},
    ("pennypost", "check_address", "A mailbox"): {"Address": "ada@example.com"},
}
RUN_TIMEOUT = 60.0


class Command(BaseCommand):
    help = "Fill the catalog with the demo vendors' tools. Safe to run again; what a person changed stays."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port-base", type=int, default=8101, help="of the running `python -m demo`")

    def handle(self, *args: object, port_base: int, **options: object) -> None:
        password = os.environ.get("PEGBOARD_DEMO_PASSWORD")
        if not password:
            raise CommandError("Set PEGBOARD_DEMO_PASSWORD to the password of the demo accounts.")
        # It enumerates as a worker does, whose log lines a user who starts the product does not need.
        with logs.quiet():
            admin, designer, _ = (
                demo_user(role, password) for role in (Role.ADMIN, Role.DESIGNER, Role.VIEWER)
            )
            for vendor in VENDORS:
                endpoint = connect(vendor, port_base, admin)
                run = read_once(endpoint, designer) if endpoint else None
                if run:
                    self.stdout.write(f"{vendor.name}: {run.seen} tools")
            translate_texts(designer)
            demo_agents.make_agents(designer)


@transaction.atomic
def demo_user(role: Role, password: str) -> User:
    """Return the demo's user with this role, and set the password, which may be weak in a demo."""
    user = User.objects.filter(username=role.value).first()
    if user is None:
        user = users.add_user(
            actor=None,
            username=role.value,
            password=None,
            name=str(role.label),
            role=role,
            why="For the demo.",
        )
    if not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
        audit.record(None, "set password", user, why="For the demo.")
    return user


def connect(demo_vendor: DemoVendor, port_base: int, admin: User) -> Endpoint | None:
    """Connect a demo vendor, and return its endpoint; None if a person has removed it."""
    vendor = Vendor.objects.filter(slug=demo_vendor.slug).first()
    if vendor is None:
        vendor = vendor_operations.create_vendor(
            actor=admin, name=demo_vendor.name, slug=demo_vendor.slug, homepage=demo_vendor.homepage
        )
        return vendor_operations.create_endpoint(
            actor=admin,
            vendor=vendor,
            protocol=demo_vendor.protocol,
            url=demo_vendor.url(port_base),
            interval_minutes=1,
        )
    endpoint = Endpoint.objects.live().filter(vendor=vendor).order_by("pk").first()
    if endpoint and endpoint.url != demo_vendor.url(port_base):
        vendor_operations.update_endpoint(endpoint, actor=admin, url=demo_vendor.url(port_base))
    return endpoint


def read_once(endpoint: Endpoint, designer: User) -> Run | None:
    """Enumerate an endpoint that was never read, and return the run. The schedule starts later runs."""
    if endpoint.last_success_at:
        return None
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    run = wait_for_run(enumeration_runs.perform(run.pk))
    if run.error_code:
        raise CommandError(f"{endpoint.vendor}: {run.error_message}")
    inspector.inspect_pending(endpoint.pk)
    search.index_pending()
    older_versions.read_all(endpoint.pk)
    keep_examples(endpoint, designer)
    return run


def wait_for_run(run: Run) -> Run:
    """Wait for the run, if a worker has claimed it first."""
    deadline = time.monotonic() + RUN_TIMEOUT
    while run.is_active and time.monotonic() < deadline:
        time.sleep(0.1)
        run.refresh_from_db()
    return run


def translate_texts(designer: User) -> None:
    """Translate the tool that its vendor describes in German. Texts that a user has changed since stay."""
    scan.scan_pending()
    german = Tool.objects.filter(endpoint__vendor__slug="quillmoor", texts__language="de").first()
    if german is None or german.current is None:
        return
    digest = tool_texts.digest_of(german.current.decoded().description)
    if not stored.translations_of([digest], "en"):
        text = "Asks the bank's advisers to call the customer back."
        stored.write_translation(actor=designer, language="en", digest=digest, text=text)


def keep_examples(endpoint: Endpoint, designer: User) -> None:
    for (vendor, tool_name, name), arguments in EXAMPLES.items():
        if vendor == endpoint.vendor.slug:
            tool = Tool.objects.get(endpoint=endpoint, name=tool_name)
            examples.store_example(tool, arguments, actor=designer, name=name)
