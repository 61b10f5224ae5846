"""A catalog of any size, quickly: honest-looking tools out of a few words."""

import json
import random
from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from catalog import search
from catalog.models import Endpoint, Tool, ToolVersion, Vendor
from core.canonical_json import canonical, digest
from protocols import PROTOCOLS
from protocols.signature import Parameter, Signature, to_json

VERBS = ("create", "list", "get", "update", "cancel", "search", "export", "archive", "share", "approve")
NOUNS = (
    *("invoice", "appointment", "shipment", "contact", "calendar", "ticket", "refund", "contract", "report"),
    *("booking", "prescription", "forecast", "warehouse", "payroll", "campaign", "lead", "policy", "claim"),
)
PLACES = (
    "store",
    "region",
    "customer",
    "team",
    "project",
    "account",
    "branch",
    "season",
    "supplier",
    "device",
)
TAGS = ("billing", "health", "travel", "weather", "sales", "support", "people", "logistics")
BATCH = 5_000


def signature(number: int, dice: random.Random) -> Signature:
    verb, noun, place = dice.choice(VERBS), dice.choice(NOUNS), dice.choice(PLACES)
    return Signature(
        name=f"{verb}_{noun}_of_{place}_{number}",
        description=f"Use this to {verb} a {noun} that belongs to a {place}, with everything known about it.",
        tags=tuple(sorted(dice.sample(TAGS, 2))),
        inputs=tuple(
            Parameter(
                id=f"p{index}",
                name=f"{word}_id",
                type="string",
                required=index == 0,
                description=f"The number of the {word}, as it stands on the {noun}.",
            )
            for index, word in enumerate(dice.sample(PLACES, 4))
        ),
    )


def fill(count: int, *, endpoints: int = 10, seed: int = 1) -> None:
    """`count` tools with one version each, indexed for search, with fresh statistics."""
    fill_into([make_endpoint(number) for number in range(endpoints)], count, seed=seed)


def fill_into(homes: list[Endpoint], count: int, *, seed: int = 1) -> None:
    dice = random.Random(seed)
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        add_tools(homes, [(number, signature(number, dice)) for number in numbers])
    search.index_pending()
    gather_statistics()


def gather_statistics() -> None:
    """As the server does by itself, of the tables that hold rows. One that is counted while it is empty would
    be read whole by every statement that is planned before it is counted again."""
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT string_agg(oid::regclass::text, ', ') FROM pg_class
            WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
        """)
        cursor.execute(f"VACUUM ANALYZE {cursor.fetchone()[0]}")


def make_endpoint(number: int) -> Endpoint:
    vendor, _ = Vendor.objects.get_or_create(slug=f"vendor-{number}", defaults={"name": f"Vendor {number}"})
    return Endpoint.objects.create(
        vendor=vendor, protocol=PROTOCOLS[0].name, url=f"http://127.0.0.1:{9000 + number}/"
    )


def make_endpoint_of(slug: str, name: str) -> Endpoint:
    vendor, _ = Vendor.objects.get_or_create(slug=slug, defaults={"name": name})
    endpoint, _ = Endpoint.objects.get_or_create(
        vendor=vendor, protocol=PROTOCOLS[0].name, url=f"http://127.0.0.1/{slug}/"
    )
    return endpoint


def add_tools(homes: list[Endpoint], signatures: list[tuple[int, Signature]]) -> None:
    add_signatures(
        [(homes[number % len(homes)], f"tool-{number}", signature) for number, signature in signatures]
    )


@transaction.atomic
def add_signatures(signatures: list[tuple[Endpoint, str, Signature]]) -> None:
    """Add tools with one version each; the ids are those at the vendors."""
    tools = Tool.objects.bulk_create(
        Tool(
            endpoint=endpoint,
            tool_id=tool_id,
            name=signature.name,
            description=signature.description,
            tags=list(signature.tags),
            tokens=120,
            # An ordinary moment: what has changed within the last minute is searched besides the index.
            changed_at=timezone.now() - timedelta(hours=1),
        )
        for endpoint, tool_id, signature in signatures
    )
    encoded = [to_json(signature).decode() for _, _, signature in signatures]
    versions = ToolVersion.objects.bulk_create(
        ToolVersion(
            tool=tool,
            ordinal=1,
            label="1",
            label_key=[1],
            digest=digest(json.loads(text)),
            signature=text,
            raw=canonical(json.loads(text)).decode(),
        )
        for tool, text in zip(tools, encoded, strict=True)
    )
    for tool, version in zip(tools, versions, strict=True):
        tool.current = version
    Tool.objects.bulk_update(tools, ["current"], batch_size=1_000)
