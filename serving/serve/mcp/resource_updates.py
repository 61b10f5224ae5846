"""Updates of vendors' resources, for a client that listens: one stream to each vendor that offers some.

https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from catalog.credentials import sessions
from catalog.models import Endpoint
from core.errors import DomainError
from core.outbound.errors import ProtocolError
from core.outbound.limits import MIB, Limits
from core.postgresql.base import give_back
from execution.calls import checks
from protocols.base import UpdateStream
from protocols.mcp.server.context import find_resource
from protocols.mcp.server.release import ContextItem
from protocols.mcp.server.streams import STREAM_SECONDS
from serving.calls import released_version, runtime_of
from serving.released_documents import load_sealed_release
from serving.serve.base import ServedRelease

_LIMITS = Limits(request=10.0, session=STREAM_SECONDS + 30.0, body=MIB, backoff=())


@dataclass(frozen=True)
class ResourceUpdates:
    subscriptions: list[UpdateStream]

    @property
    def addresses(self) -> list[str]:
        """The addresses of the resources whose updates are reported."""
        return sorted({uri for subscription in self.subscriptions for uri in subscription.addresses})

    def take(self) -> list[str]:
        """Return the addresses that were updated since the last time, each once."""
        updated = [uri for subscription in self.subscriptions for uri in subscription.take_updates()]
        return list(dict.fromkeys(updated))


def subscribe(
    served_release: ServedRelease, items: Sequence[ContextItem], uris: Iterable[str], stack: ExitStack
) -> ResourceUpdates:
    """Subscribe to those of the resources that are pinned and whose vendors report updates.

    Each vendor counts as a call of the key. The subscriptions end with `stack`.
    """
    updates = ResourceUpdates([])
    addresses_by_endpoint: dict[Endpoint, list[str]] = defaultdict(list)
    for uri in uris:
        resource, released = find_resource(items, uri), load_sealed_release(served_release.release)
        item = released.context_item(resource.name, served_release.sub_agent) if resource else None
        if item is None:
            continue
        runtime = runtime_of(served_release.release, served_release.caller.key, item.signature.name)
        # A resource that waits for review is not read, so its updates are not reported either.
        with suppress(DomainError):
            version = released_version(item)
            checks.refuse_unfit(version, checks.review_states(version), runtime)
            addresses_by_endpoint[version.tool.endpoint].append(uri)
    for endpoint, addresses in addresses_by_endpoint.items():
        # A key that may not run tools gets no updates. A vendor that does not answer costs its own resources.
        with suppress(DomainError, ProtocolError):
            served_release.spend_a_call()
            session = stack.enter_context(sessions.open_session(endpoint, limits=_LIMITS))
            give_back()
            subscription = endpoint.build_protocol().subscribe(session, addresses, STREAM_SECONDS)
            updates.subscriptions.append(stack.enter_context(subscription))
    return updates
