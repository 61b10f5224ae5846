"""Fetch the images of tools and store the pictures made of them.

One request serves all tools of an endpoint that have the same address. Each address is requested without the
endpoint's credential, and again after a week, because an image may change behind its address.
"""

import hashlib
import random
import time
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from catalog.credentials import rate_limit
from catalog.models import Endpoint, Picture, ToolPicture
from catalog.models.tools import ToolStatus
from catalog.pictures import addresses, drawing
from catalog.pictures.drawing import ImageError
from core import portions
from core.outbound.addresses import check_url
from core.outbound.errors import ProtocolError, UnavailableError
from core.outbound.limits import MIB, Limits
from core.outbound.policy import AddressSource, Door, policy_for
from core.outbound.session import HttpSession, no_turns

LIMITS = Limits(request=10.0, session=15.0, body=MIB, session_bytes=2 * MIB, backoff=())
# The limit per vendor leaves time in the worker for other tasks.
MAX_ADDRESSES = 200
READ_AGAIN = timedelta(days=7)
LOOK_AGAIN = timedelta(hours=6)  # whether a tool is offered again
FIRST_RETRY = timedelta(hours=1)
# Longer than a request. After a worker's death another one fetches the address.
CLAIM = timedelta(minutes=5)
_ACCEPT = {"Accept": "image/webp,image/png,image/jpeg,image/gif"}
_MAX_DOUBLINGS = 8


def fetch_due(*, ends: float) -> int:
    """Fetch the images that are due, begin no other one after `ends` (time.monotonic). Return the number of
    requested addresses.

    Safe to run at the same time in several workers.
    """
    for count in range(MAX_ADDRESSES):
        if time.monotonic() >= ends:
            return count
        # Postponed before the request, so that one which ends a worker is not requested again at once.
        now = timezone.now()
        with transaction.atomic():
            due = ToolPicture.objects.filter(next_at__lte=now).order_by("next_at")
            due = due.select_related("tool__endpoint").select_for_update(skip_locked=True, of=("self",))
            source = due.first()
            if source is None:
                return count
            ToolPicture.objects.filter(pk=source.pk).update(next_at=now + CLAIM)
        _fetch_picture(source)
    return MAX_ADDRESSES


def delete_unused() -> None:
    """Delete the pictures that no tool has any more."""
    used = ToolPicture.objects.filter(picture=OuterRef("pk"))
    with transaction.atomic():
        # Locked first: a worker that stores the same picture at this moment waits, and inserts it again.
        unused = Picture.objects.filter(~Exists(used), made_at__lt=timezone.now() - CLAIM)
        unused = unused.select_for_update(skip_locked=True)
        Picture.objects.filter(
            pk__in=list(unused.values_list("pk", flat=True)[: portions.PORTION_ROWS])
        ).delete()


def _fetch_picture(source: ToolPicture) -> None:
    endpoint = source.tool.endpoint
    is_offered = source.tool.status == ToolStatus.ACTIVE and endpoint.is_live and not endpoint.is_paused
    if not is_offered:
        ToolPicture.objects.filter(pk=source.pk).update(next_at=timezone.now() + LOOK_AGAIN)
        return
    try:
        content = drawing.draw(_image_at(source.address, endpoint))
    except (ProtocolError, ImageError) as error:
        # Doubled each time, and random, so that requests to a recovering vendor spread.
        wait = min(FIRST_RETRY * 2 ** min(source.failures, _MAX_DOUBLINGS), READ_AGAIN)
        changes = {
            "next_at": timezone.now() + wait * random.uniform(1.0, 1.2),  # noqa: S311 - spreads requests
            "failures": source.failures + 1,
            "error_code": error.code[:40],
            "error_message": error.message,
        }
        # An outage leaves the picture that there is.
        if not isinstance(error, UnavailableError):
            changes["picture"] = None
        with transaction.atomic():
            _rows_with_address_of(source).update(**changes)
    else:
        digest = hashlib.sha256(content).hexdigest()
        with transaction.atomic():
            Picture.objects.bulk_create(
                [Picture(digest=digest, content=content)],
                update_conflicts=True,
                unique_fields=["digest"],
                update_fields=["made_at"],
            )
            _rows_with_address_of(source).update(
                picture=digest,
                next_at=timezone.now() + READ_AGAIN,
                failures=0,
                error_code="",
                error_message="",
            )


def _image_at(address: str, endpoint: Endpoint) -> bytes:
    if addresses.is_data(address):
        return addresses.decode_data(address)
    # An administrator gave the origin of the endpoint; any other one is the vendor's own idea.
    policy = policy_for(Door.PICTURE, AddressSource.ADMINISTRATOR)
    origins = (check_url(url, policy, may_ask=True).origin for url in (address, endpoint.url))
    is_of_endpoint = endpoint.url != "" and len(set(origins)) == 1
    source = AddressSource.ADMINISTRATOR if is_of_endpoint else AddressSource.VENDOR
    with HttpSession(
        address,
        policy=policy_for(Door.PICTURE, source),
        limits=LIMITS,
        turns=rate_limit.turns(endpoint) if is_of_endpoint else no_turns,
        authorities=endpoint.authorities if is_of_endpoint else "",
    ) as session:
        return session.get("", headers=_ACCEPT).body


def _rows_with_address_of(source: ToolPicture) -> QuerySet[ToolPicture]:
    # The rows of the endpoint with this address, locked. An enumeration writes those that are locked already.
    rows = ToolPicture.objects.filter(tool__endpoint=source.tool.endpoint_id, address=source.address)
    locked = rows.select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True)
    return ToolPicture.objects.filter(pk__in=list(locked))
