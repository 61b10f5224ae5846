"""Version numbers of effective signatures, stored when a release is published and never changed.

Releases that are older than these rows are numbered when they are first requested. The numbers follow from
the documents of an agent's releases in their order, so each process computes the same.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from uuid import UUID

from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from core.compiled_queries import PreparedQuery, named_value
from designer.exports import document as release_document
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.models import Agent, EffectiveVersion, Release
from designer.releases import numbering
from designer.releases.numbering import Number, NumberedToolKey

# Releases that are numbered in one transaction, which locks the agent's row.
BATCH_SIZE = 20
# Size of the cache of the releases that contain a tool, for older versions that clients request.
MAX_CACHED_HOLDINGS = 4_096
MAX_CACHED_AGENTS = 1_000

# By agent: its newest row, and the last release read since that changed no tool. Without it such releases
# would be read each time, because they have no row. A newer row invalidates the entry.
_progress: dict[int, tuple[int, int]] = {}


class _History:
    """All versions of an agent, and those that follow from the releases `unread` (`missing`)."""

    def __init__(self, agent: int, unread: Iterable[int] = ()) -> None:
        self.agent = agent
        self.newest: dict[NumberedToolKey, EffectiveVersion] = {}
        self.missing: list[EffectiveVersion] = []
        self._uuids: defaultdict[int, set[UUID]] = defaultdict(set)
        self._names: defaultdict[int, set[str]] = defaultdict(set)
        # The tools of newest rows as far as they were needed, never whole documents.
        self._shown: dict[NumberedToolKey, ReleasedTool] = {}
        for row in _VERSIONS.rows(agent=agent):
            self._note_version(row)
        for pk in unread:
            self._number_release(Release.objects.only("agent_id", "number", "document").get(pk=pk))

    def changed(
        self,
        current: dict[NumberedToolKey, ReleasedTool],
        documents: Mapping[int, ReleaseDocument] | None = None,
    ) -> dict[NumberedToolKey, ReleasedTool]:
        """Return the tools whose last version differs, each as it was last shown."""
        changed_keys = [
            key
            for key, tool in current.items()
            if key in self.newest and self.newest[key].digest != numbering.digest_of(tool)
        ]
        unknown: defaultdict[int, list[NumberedToolKey]] = defaultdict(list)
        for key in changed_keys:
            if key not in self._shown:
                unknown[self.newest[key].release_id].append(key)
        for pk, keys in unknown.items():
            if document := (documents or {}).get(pk):
                earlier = numbering.tools_of_document(document, self.agent)
            else:
                earlier = tools_of(Release.objects.only("agent_id", "document").get(pk=pk))
            self._shown.update((key, earlier[key]) for key in keys)
        return {key: self._shown[key] for key in changed_keys}

    def _number_release(self, release: Release) -> None:
        tools = tools_of(release)
        changed = self.changed(tools)
        for key, tool in tools.items():
            last_version = self.newest.get(key)
            if last_version is None:
                store_numbers = numbering.first_number(
                    tool, uuids=self._uuids[key.node], names=self._names[key.node]
                )
            elif key in changed:
                before = Number(
                    last_version.uuid, last_version.number, last_version.dotted_name, last_version.semver
                )
                store_numbers = numbering.next_number(before, changed[key], tool)
            else:
                continue
            row = EffectiveVersion(
                agent_id=self.agent,
                release_id=release.pk,
                **key._asdict(),
                **store_numbers._asdict(),
                digest=numbering.digest_of(tool),
            )
            self.missing.append(row)
            self._note_version(row)
            self._shown[key] = tool

    def _note_version(self, row: EffectiveVersion) -> None:
        self.newest[_key_of(row)] = row
        self._uuids[row.node].add(row.uuid)
        self._names[row.node].add(row.dotted_name.lower())


def store_numbers(agent: int) -> None:
    """Number the agent's releases that are not numbered yet. A few per transaction, so that finished work is
    kept, and others can lock the agent in between.
    """
    after = 0
    while _find_unread(agent, after)[0]:
        with transaction.atomic():
            # One process at a time; a process that publishes has locked the row already.
            Agent.objects.select_for_update(no_key=True).only("pk").get(pk=agent)
            # Another process may have numbered them in the meantime.
            unread, newest = _find_unread(agent, after)
            if not unread:
                return
            missing = EffectiveVersion.objects.bulk_create(_History(agent, unread[:BATCH_SIZE]).missing)
            after = unread[:BATCH_SIZE][-1]
            newest = missing[-1].pk if missing else newest
            transaction.on_commit(partial(_cache_progress, agent, newest, after))
        if len(unread) <= BATCH_SIZE:
            return


def _find_unread(agent: int, after: int) -> tuple[list[int], int]:
    """Return the ids of the releases after `after` that are not numbered, in order, and the newest row's
    id.
    """
    ((newest, number),) = _NEWEST.rows(agent=agent) or [(0, 0)]
    cached_newest, cached_release = _progress.get(agent, (0, 0))
    if cached_newest == newest:
        after = max(after, cached_release)
    return [pk for (pk,) in _UNREAD.rows(agent=agent, number=number, after=after)], newest


_VERSIONS: PreparedQuery[EffectiveVersion] = PreparedQuery(
    lambda: EffectiveVersion.objects.filter(agent=named_value("agent")).order_by("pk")
)
_NEWEST: PreparedQuery[tuple[int, int]] = PreparedQuery(
    lambda: (
        EffectiveVersion.objects.filter(agent=named_value("agent"))
        .values("agent")
        .values_list(Max("pk"), Max("release__number"))
        .order_by()
    )
)
_UNREAD: PreparedQuery[tuple[int]] = PreparedQuery(
    lambda: (
        Release.objects.filter(
            agent=named_value("agent"), number__gt=named_value("number"), pk__gt=named_value("after")
        )
        .order_by("pk")
        .values_list("pk")
    )
)


def _cache_progress(agent: int, newest: int, release: int) -> None:
    if len(_progress) >= MAX_CACHED_AGENTS:
        _progress.clear()
    _progress[agent] = newest, release


def broken_by(
    agent: Agent, draft: ReleaseDocument, documents: Mapping[int, ReleaseDocument]
) -> dict[int, dict[str, list[str]]]:
    """Return the changes of a published agent's draft that would break clients that know versions.

    By the primary key of each agent of its tree: the tools that would become other tools to them, with a
    sentence per reason. `documents`: documents of its releases that were read already, by primary key.
    """
    store_numbers(agent.pk)
    history, current = _History(agent.pk), numbering.tools_of_document(draft, agent.pk)
    result: defaultdict[int, dict[str, list[str]]] = defaultdict(dict)
    for key, old in history.changed(current, documents).items():
        if sentences := numbering.list_breaks(old, current[key]):
            result[key.node][current[key].signature.name] = sentences
    return result


def versions_of_tools(
    release: Release, node: int, tools: Iterable[tuple[NumberedToolKey, ReleasedTool]]
) -> dict[NumberedToolKey, EffectiveVersion]:
    """Return the versions of these tools, which this agent of the release shows."""
    rows = _versions_until(release, node).order_by("tool", "child", "-pk").distinct("tool", "child")
    digests = {key: numbering.digest_of(tool) for key, tool in tools}

    def read_versions() -> dict[NumberedToolKey, EffectiveVersion]:
        by_key = {_key_of(row): row for row in rows.all()}
        return {key: row for key, row in by_key.items() if row.digest == digests.get(key)}

    result = read_versions()
    if result.keys() != digests.keys():
        store_numbers(release.agent_id)
        result = read_versions()
    return result


def versions_by_uuid(release: Release, node: int, uuid: UUID) -> list[EffectiveVersion]:
    """Return the versions of one tool in `release` and earlier ones, the newest first."""
    return list(_versions_until(release, node).filter(uuid=uuid).order_by("-number"))


def versions_by_dotted_name(
    release: Release, node: int, dotted_name: str, semver: str = ""
) -> QuerySet[EffectiveVersion]:
    """Return the versions of one tool in `release` and earlier ones, the newest first; all, or one."""
    rows = _versions_until(release, node).filter(dotted_name=dotted_name).order_by("-pk")
    return rows.filter(semver=semver) if semver else rows


def release_with(version: EffectiveVersion, last: Release) -> Release | None:
    """Return the newest release up to `last` that contains the version and that API keys get; None if all are
    retired.
    """
    releases = Release.objects.filter(agent=version.agent_id, number__lte=last.number)
    # The primary keys of an agent's releases are in the order of their numbers.
    releases = releases.filter(pk__gte=version.release_id)
    rows = EffectiveVersion.objects.filter(agent=version.agent_id, pk__gt=version.pk)
    next_ = rows.filter(node=version.node, tool=version.tool, child=version.child).order_by("pk").first()
    if next_:
        releases = releases.filter(pk__lt=next_.release_id)
    # No document is read yet: there may be hundreds. A release may lack the tool, but nearly always the first
    # one has it.
    available = releases.exclude(retirement__sunset_at__lte=timezone.now()).order_by("-number")
    pks, key = available.values_list("pk", flat=True), _key_of(version)
    release_id = next((pk for pk in pks if _release_contains(pk, key)), None)
    return (
        None if release_id is None else releases.select_related("agent").defer("document").get(pk=release_id)
    )


@lru_cache(maxsize=MAX_CACHED_HOLDINGS)
def _release_contains(release: int, key: NumberedToolKey) -> bool:
    """Return whether the release contains the tool. Cached per process, because releases never change."""
    return key in tools_of(Release.objects.only("agent_id", "document").get(pk=release))


def tools_of(release: Release) -> dict[NumberedToolKey, ReleasedTool]:
    return numbering.tools_of_document(release_document.decode(release.document), release.agent_id)


def _key_of(row: EffectiveVersion) -> NumberedToolKey:
    return NumberedToolKey(row.node, row.tool, row.child)


def _versions_until(release: Release, node: int) -> QuerySet[EffectiveVersion]:
    return EffectiveVersion.objects.filter(
        agent=release.agent_id, node=node, release__number__lte=release.number
    )
