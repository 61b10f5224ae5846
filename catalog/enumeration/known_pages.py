"""Remembers the pages of a list and who has read them: a page that did not change is not read again."""

import hashlib

from catalog.credentials import sessions
from catalog.credentials.oauth import clients
from catalog.models import Endpoint, KnownPage
from core import canonical_json
from core.outbound.reply import Reply
from protocols.base import Protocol
from protocols.list_pages import Item, ItemPage


class FirstPage:
    """The first page as this run has read it, to detect a change during the run."""

    count = 1

    def __init__(self, page: ItemPage) -> None:
        self.page = page

    def etag(self, cursor: str) -> str:
        return "" if cursor else self.page.etag

    def recall(self, cursor: str, reply: Reply) -> ItemPage | None:
        digest = self.page.body_digest
        is_same = reply.status == 304 or (digest and hashlib.sha256(reply.body).hexdigest() == digest)
        return self.page if is_same and not cursor else None


class RememberedPages:
    """The pages of the last complete run of this endpoint; see `KnownPage`."""

    def __init__(self, endpoint: Endpoint, reader: str) -> None:
        self.reader = reader
        rows = KnownPage.objects.filter(endpoint=endpoint, reader=reader)
        self.pages = {page.cursor: page for page in rows}
        self.count = len(self.pages)

    def etag(self, cursor: str) -> str:
        page = self.pages.get(cursor)
        return page.etag if page else ""

    def recall(self, cursor: str, reply: Reply) -> ItemPage | None:
        page = self.pages.get(cursor)
        if page is None:
            return None
        if reply.status != 304 and hashlib.sha256(reply.body).hexdigest() != page.body_digest:
            return None
        return ItemPage(
            items=[Item(tool_id, "", (), "") for tool_id in page.tool_ids],
            next=page.next_cursor,
            cursor=cursor,
            etag=page.etag,
            body_digest=page.body_digest,
            is_known=True,
        )


def reader_of(endpoint: Endpoint, protocol: Protocol) -> str:
    """Return a key of everything that affects the pages: address, settings and credential of the endpoint.

    A stored document counts by its size and digest in the settings, so its text is not read.
    """
    # Another address, setting, credential or sign-in may bring another list.
    credential = endpoint.credential
    credential_facts: list[object] | None = None
    if credential:
        signed_in_at = credential.grant.signed_in_at if clients.uses_oauth(credential) else None
        credential_facts = [str(credential.pk), credential.set_at, signed_in_at, sessions.facts(credential)]
    settings = {setting.name: setting.default for setting in protocol.settings} | endpoint.settings
    parts = [endpoint.url, settings, credential_facts]
    return f"{protocol.name}:{protocol.revision}:{canonical_json.digest(parts)[:12]}"
