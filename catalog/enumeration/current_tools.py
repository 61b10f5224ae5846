"""The tools of an endpoint as the catalog stores them."""

from dataclasses import dataclass

from catalog.models import Endpoint, Tool, ToolVersion
from catalog.models.tools import ToolStatus
from protocols import list_pages
from protocols.list_pages import identity


@dataclass(frozen=True, slots=True)
class CurrentTool:
    """The version of one tool that the vendor listed last, as stored in the catalog.

    version: its key. in_effect: the current version, None if none was accepted.
    """

    pk: int
    kind: str
    is_active: bool
    version: int
    in_effect: int | None
    label: str
    label_key: list[int]
    digest: str
    listed_digest: str | None

    @property
    def newest_digest(self) -> str:
        """Return the digest of the last listed document. It may differ from the version's in members whose
        changes make no new version.
        """
        return self.listed_digest or self.digest

    def is_listed_as(self, digest: str, revision: int) -> bool:
        """Return whether the digest alone shows that a document makes no version."""
        return digest == self.listed_digest or list_pages.is_digest_of(self.digest, digest, revision)


def read_current_tools(endpoint: Endpoint, only: int | None = None) -> dict[str, CurrentTool]:
    """Return the tools of the endpoint by `identity`. only: the primary key of the only tool to read.

    A tool with a version that its policy stops has the label and the digest of the stopped version.
    """
    tools = Tool.objects.filter(endpoint=endpoint, **({} if only is None else {"pk": only}))
    rows = tools.values_list(
        *("tool_id", "pk", "kind", "status", "current_id", "stopped_id"),
        *("current__label", "current__label_key", "current__digest", "listed__digest"),
    )
    current_by_tool: dict[str, CurrentTool] = {}
    stopped: dict[int, tuple[str, bool]] = {}
    for tool_id, pk, kind, status, current, kept_out, *digest_parts in rows.iterator(chunk_size=5_000):
        tool, is_active = identity(tool_id), status == ToolStatus.ACTIVE
        if kept_out:
            stopped[kept_out] = tool, kept_out == current
        current_by_tool[tool] = CurrentTool(pk, kind, is_active, current, current, *digest_parts)
    for version in ToolVersion.objects.filter(pk__in=stopped).only("label", "label_key", "digest"):
        tool, is_first = stopped[version.pk]
        row = current_by_tool[tool]
        in_effect = None if is_first else row.in_effect
        digest_parts = [version.label, version.label_key, version.digest, row.listed_digest]
        current_by_tool[tool] = CurrentTool(
            row.pk, row.kind, row.is_active, version.pk, in_effect, *digest_parts
        )
    return current_by_tool
