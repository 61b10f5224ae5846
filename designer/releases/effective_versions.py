"""Numbers of effective signatures, as rows: written when a release is published, and never again.

Releases that are older than these rows are numbered when they are first asked for. Numbers follow from the
documents of an agent's releases in their order, so each process that writes them writes the same.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache, partial
from uuid import UUID

from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from designer.exports import document as release_document
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.models import Agent, EffectiveVersion, Release
from designer.releases import numbering
from designer.releases.numbering import Key, Number

# Releases that are numbered in one transaction, which holds the agent's row.
BATCH = 20
# Which releases are known to hold which tools, for the older versions that clients ask for.
HOLDINGS_KEPT = 4_096
AGENTS_KEPT = 1_000

# By agent its newest row, and the last release that was read since, which changed no tool. Without it such
# releases would be read again each time, because no row tells of them. It is no more than what this process
# has read, and another newest row makes it void.
_read: dict[int, tuple[int, int]] = {}


class _History:
    """All versions of an agent, and those that follow from the releases `unread` (`missing`)."""

    def __init__(self, agent: int, unread: Iterable[int] = ()) -> None:
        self.agent = agent
        self.newest: dict[Key, EffectiveVersion] = {}
        self.missing: list[EffectiveVersion] = []
        self._uuids: defaultdict[int, set[UUID]] = defaultdict(set)
        self._names: defaultdict[int, set[str]] = defaultdict(set)
        # The tools of newest rows as far as they were needed, and never whole documents.
        self._shown: dict[Key, ReleasedTool] = {}
        for row in EffectiveVersion.objects.filter(agent=agent).order_by("pk"):
            self._note(row)
        for pk in unread:
            self._add(Release.objects.only("agent_id", "number", "document").get(pk=pk))

    def changed(self, now: dict[Key, ReleasedTool]) -> dict[Key, ReleasedTool]:
        """Of tools that were shown in another version before: each as it was shown last."""
        others = [
            key
            for key, tool in now.items()
            if key in self.newest and self.newest[key].digest != numbering.digest_of(tool)
        ]
        unknown: defaultdict[int, list[Key]] = defaultdict(list)
        for key in others:
            if key not in self._shown:
                unknown[self.newest[key].release_id].append(key)
        for pk, keys in unknown.items():
            then = shown_by(Release.objects.only("agent_id", "document").get(pk=pk))
            self._shown.update((key, then[key]) for key in keys)
        return {key: self._shown[key] for key in others}

    def _add(self, release: Release) -> None:
        now = shown_by(release)
        changed = self.changed(now)
        for key, tool in now.items():
            last = self.newest.get(key)
            if last is None:
                number = numbering.first(tool, uuids=self._uuids[key.node], names=self._names[key.node])
            elif key in changed:
                before = Number(last.uuid, last.number, last.dotted_name, last.semver)
                number = numbering.following(before, changed[key], tool)
            else:
                continue
            row = EffectiveVersion(
                agent_id=self.agent,
                release_id=release.pk,
                **key._asdict(),
                **number._asdict(),
                digest=numbering.digest_of(tool),
            )
            self.missing.append(row)
            self._note(row)
            self._shown[key] = tool

    def _note(self, row: EffectiveVersion) -> None:
        self.newest[_key(row)] = row
        self._uuids[row.node].add(row.uuid)
        self._names[row.node].add(row.dotted_name.lower())


def number(agent: int) -> None:
    """Numbers what the agent's releases hold, as far as it is not numbered: a few releases at a time, so that
    outside of a transaction what was done stays done, and others get at the agent between."""
    after = 0
    while _unread(agent, after)[0]:
        with transaction.atomic():
            # One at a time; a process that publishes holds the row already.
            Agent.objects.select_for_update(no_key=True).only("pk").get(pk=agent)
            # Another process may have numbered them until now.
            unread, newest = _unread(agent, after)
            if not unread:
                return
            missing = EffectiveVersion.objects.bulk_create(_History(agent, unread[:BATCH]).missing)
            after = unread[:BATCH][-1]
            newest = missing[-1].pk if missing else newest
            transaction.on_commit(partial(_remember, agent, newest, after))
        if len(unread) <= BATCH:
            return


def _unread(agent: int, after: int) -> tuple[list[int], int]:
    """The releases behind `after` of which nothing is known, in their order, and the newest row."""
    rows = EffectiveVersion.objects.filter(agent=agent)
    last = rows.aggregate(pk=Max("pk"), number=Max("release__number"))
    newest = last["pk"] or 0
    known, read = _read.get(agent, (0, 0))
    if known == newest:
        after = max(after, read)
    releases = Release.objects.filter(agent=agent, number__gt=last["number"] or 0, pk__gt=after)
    return list(releases.order_by("pk").values_list("pk", flat=True)), newest


def _remember(agent: int, newest: int, release: int) -> None:
    if len(_read) >= AGENTS_KEPT:
        _read.clear()
    _read[agent] = newest, release


def broken_by(agent: Agent, draft: ReleaseDocument) -> dict[int, dict[str, list[str]]]:
    """What the draft of a published agent would break for clients that know versions. By the primary key of
    each agent of its tree: the tools that would become others to them, with a sentence for each reason."""
    number(agent.pk)
    history, now = _History(agent.pk), numbering.shown(draft, agent.pk)
    found: defaultdict[int, dict[str, list[str]]] = defaultdict(dict)
    for key, old in history.changed(now).items():
        if sentences := numbering.breaks(old, now[key]):
            found[key.node][now[key].signature.name] = sentences
    return found


def held_by(
    release: Release, node: int, tools: Iterable[tuple[Key, ReleasedTool]]
) -> dict[Key, EffectiveVersion]:
    """The versions of these tools, which this agent of the release shows."""
    rows = _up_to(release, node).order_by("tool", "child", "-pk").distinct("tool", "child")
    wanted = {key: numbering.digest_of(tool) for key, tool in tools}

    def held() -> dict[Key, EffectiveVersion]:
        found = {_key(row): row for row in rows.all()}
        return {key: row for key, row in found.items() if row.digest == wanted.get(key)}

    found = held()
    if found.keys() != wanted.keys():
        number(release.agent_id)
        found = held()
    return found


def of_uuid(release: Release, node: int, uuid: UUID) -> list[EffectiveVersion]:
    """The versions of one tool that `release` and those before it hold, the newest first."""
    return list(_up_to(release, node).filter(uuid=uuid).order_by("-number"))


def of_dotted_name(
    release: Release, node: int, dotted_name: str, semver: str = ""
) -> QuerySet[EffectiveVersion]:
    """The versions of one tool that `release` and those before it hold, the newest first; all, or one."""
    rows = _up_to(release, node).filter(dotted_name=dotted_name).order_by("-pk")
    return rows.filter(semver=semver) if semver else rows


def release_with(version: EffectiveVersion, last: Release) -> Release | None:
    """The newest release up to `last` that holds the version and that API keys get; None where all of them
    are retired."""
    releases = Release.objects.filter(agent=version.agent_id, number__lte=last.number)
    # Primary keys of an agent's releases are in the order of their numbers.
    releases = releases.filter(pk__gte=version.release_id)
    rows = EffectiveVersion.objects.filter(agent=version.agent_id, pk__gt=version.pk)
    next_ = rows.filter(node=version.node, tool=version.tool, child=version.child).order_by("pk").first()
    if next_:
        releases = releases.filter(pk__lt=next_.release_id)
    # No document is read yet: there may be hundreds. The tool may have been away from some of them; nearly
    # always the first has it.
    kept = releases.exclude(retirement__sunset_at__lte=timezone.now()).order_by("-number")
    pks, key = kept.values_list("pk", flat=True), _key(version)
    found = next((pk for pk in pks if _holds(pk, key)), None)
    return None if found is None else releases.select_related("agent").defer("document").get(pk=found)


@lru_cache(maxsize=HOLDINGS_KEPT)
def _holds(release: int, key: Key) -> bool:
    """Read once by each process, because releases never change."""
    return key in shown_by(Release.objects.only("agent_id", "document").get(pk=release))


def shown_by(release: Release) -> dict[Key, ReleasedTool]:
    return numbering.shown(release_document.decode(release.document), release.agent_id)


def _key(row: EffectiveVersion) -> Key:
    return Key(row.node, row.tool, row.child)


def _up_to(release: Release, node: int) -> QuerySet[EffectiveVersion]:
    return EffectiveVersion.objects.filter(
        agent=release.agent_id, node=node, release__number__lte=release.number
    )
