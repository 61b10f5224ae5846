"""Numbers of effective signatures, as rows: written when a release is published, and never again.

Releases that are older than these rows are numbered when they are first asked for. Numbers follow from the
documents of an agent's releases in their order, so whoever writes them writes the same.
"""

from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from designer.exports import document as release_document
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.models import Agent, EffectiveVersion, Release
from designer.releases import numbering
from designer.releases.numbering import Key, Number


class _History:
    """All versions of an agent, those that are not written yet among them (`missing`)."""

    def __init__(self, agent: int) -> None:
        self.agent = agent
        self.newest: dict[Key, EffectiveVersion] = {}
        self.missing: list[EffectiveVersion] = []
        self._uuids: defaultdict[int, set[UUID]] = defaultdict(set)
        self._names: defaultdict[int, set[str]] = defaultdict(set)
        self._shown: dict[int, dict[Key, ReleasedTool]] = {}
        rows = EffectiveVersion.objects.filter(agent=agent)
        for row in rows.order_by("pk"):
            self._note(row)
        last = rows.aggregate(last=Max("release__number"))["last"] or 0
        # A release after these that changed no tool is read again, and again nothing follows from it.
        for release in Release.objects.filter(agent=agent, number__gt=last).order_by("number"):
            self._add(release)

    def changed(self, now: dict[Key, ReleasedTool]) -> dict[Key, ReleasedTool]:
        """Of tools that were shown in another version before: each as it was shown last."""
        others = {
            key: self.newest[key]
            for key, tool in now.items()
            if key in self.newest and self.newest[key].digest != numbering.digest_of(tool)
        }
        unread = {row.release_id for row in others.values()} - self._shown.keys()
        for release in Release.objects.filter(pk__in=unread) if unread else ():
            self._shown[release.pk] = shown_by(release)
        return {key: self._shown[row.release_id][key] for key, row in others.items()}

    def _add(self, release: Release) -> None:
        now = self._shown[release.pk] = shown_by(release)
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
                release=release,
                **key._asdict(),
                **number._asdict(),
                digest=numbering.digest_of(tool),
            )
            self.missing.append(row)
            self._note(row)

    def _note(self, row: EffectiveVersion) -> None:
        self.newest[_key(row)] = row
        self._uuids[row.node].add(row.uuid)
        self._names[row.node].add(row.dotted_name.lower())


@transaction.atomic
def number(agent: int) -> None:
    """Numbers what the agent's releases hold, as far as it is not numbered."""
    # One at a time; whoever publishes holds the row already.
    Agent.objects.select_for_update(no_key=True).get(pk=agent)
    EffectiveVersion.objects.bulk_create(_History(agent).missing)


def broken_by(agent: Agent, draft: ReleaseDocument) -> dict[int, dict[str, list[str]]]:
    """What the draft of a published agent would break for clients that know versions. By the primary key of
    each agent of its tree: the tools that would become others to them, with a sentence for each reason."""
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


def of_semver(release: Release, node: int, dotted_name: str, semver: str) -> EffectiveVersion | None:
    return _up_to(release, node).filter(dotted_name=dotted_name, semver=semver).first()


def release_with(version: EffectiveVersion, last: Release) -> Release | None:
    """The newest release up to `last` that holds the version and that API keys get; None where all of them
    are retired."""
    releases = Release.objects.filter(agent=version.agent_id, number__lte=last.number)
    releases = releases.filter(number__gte=version.release.number).select_related("agent")
    rows = EffectiveVersion.objects.filter(agent=version.agent_id, pk__gt=version.pk)
    next_ = rows.filter(node=version.node, tool=version.tool, child=version.child).order_by("pk").first()
    if next_:
        releases = releases.filter(number__lt=next_.release.number)
    key = _key(version)
    kept = releases.exclude(retirement__sunset_at__lte=timezone.now()).order_by("-number")
    # The tool may have been away from some of them; nearly always the first has it.
    return next((each for each in kept.iterator(chunk_size=1) if key in shown_by(each)), None)


def shown_by(release: Release) -> dict[Key, ReleasedTool]:
    return numbering.shown(release_document.decode(release.document), release.agent_id)


def _key(row: EffectiveVersion) -> Key:
    return Key(row.node, row.tool, row.child)


def _up_to(release: Release, node: int) -> QuerySet[EffectiveVersion]:
    return EffectiveVersion.objects.filter(
        agent=release.agent_id, node=node, release__number__lte=release.number
    )
