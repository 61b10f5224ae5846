"""One Agent Skill for each procedure, in a zip: a folder with a SKILL.md, by the public specification."""

import io
import re
import zipfile
from collections.abc import Mapping

import yaml

from designer.exports.base import MEMBERS, Format, FormatLimits
from designer.exports.document import ReleaseDocument, ReleasedProcedure, ReleasedTool

# Both by the specification.
MAX_NAME = 64
MAX_DESCRIPTION = 1_024
LIMITS = FormatLimits(
    source="https://agentskills.io/specification, SKILL.md, front matter",
    date="2026-11-22",
    carries=frozenset(MEMBERS),
    of="procedures",
)
# A provider reserves these: with one in a skill's name, alone or within a word, it refuses the whole upload.
_RESERVED = re.compile("claude|anthropic")
# The headings of the sections that state the purpose of a skill and when to use it, as in a new procedure.
_GOAL, _WHEN = "goal", "when to follow this"
# A zip contains a time for each file, and no earlier one. The real time would change the bytes.
_EARLIEST = (1980, 1, 1, 0, 0, 0)


def write(release: ReleaseDocument) -> bytes:
    tools = {tool.signature.name: tool for tool in release.tools}
    files: dict[str, str] = {}
    for procedure in release.procedures:
        # Two hyphens in a row are no name of a skill, so two slugs may come to want the same one.
        plain = procedure.slug.lower()
        while _RESERVED.search(plain):  # what is left may form such a word anew
            plain = _RESERVED.sub("", plain)
        stem = re.sub("[^a-z0-9]+", "-", plain).strip("-")[: MAX_NAME - 5].strip("-") or "procedure"
        name, number = stem, 1
        while name in files:
            number += 1
            name = f"{stem}-{number}"
        files[name] = _write_skill(name, procedure, tools)
    packed = io.BytesIO()
    # Not compressed: compressors differ by their versions, and an export is the same bytes everywhere.
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{name}/SKILL.md", date_time=_EARLIEST)
            # As Unix writes it, on whatever machine: readable by all, or some programs unpack it unreadable.
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, text.encode())
    return packed.getvalue()


def _write_skill(skill_name: str, procedure: ReleasedProcedure, tools: Mapping[str, ReleasedTool]) -> str:
    matter = yaml.safe_dump(
        {"name": skill_name, "description": description(procedure)},
        allow_unicode=True,
        sort_keys=False,
        # No line is folded: some readers of front matter take one line for each member.
        width=10 * MAX_DESCRIPTION,
    )
    text = f"---\n{matter}---\n\n# {_on_one_line(procedure.title)}\n\n{procedure.text.strip()}\n"
    references = {reference.name: reference.kind for reference in procedure.references if reference.name}
    lines = []
    for name, kind in sorted(references.items()):
        if name in tools:
            # On one line, where a vendor's words can begin no section of their own.
            lines.append(f"- `{name}`: {_on_one_line(tools[name].signature.description)}".rstrip(": "))
        elif kind == "agent":
            lines.append(f"- `{name}`: hands over to another agent")
    return text + ("\n## Tools\n\n" + "\n".join(lines) + "\n" if lines else "")


def description(procedure: ReleasedProcedure) -> str:
    """Return what the skill does and when to use it: the procedure's title, goal and occasion, on one
    line."""
    # By heading in lower case, "" for the text before the first.
    paragraphs: dict[str, list[str]] = {}
    heading, is_over = "", False
    for line in procedure.text.splitlines():
        if head := re.fullmatch(r"#{1,6}\s+(.*?)\s*#*", line.strip()):
            heading, is_over = head[1].casefold(), False
        elif line.strip() and not is_over:
            paragraphs.setdefault(heading, []).append(line.strip())
        else:
            is_over = heading in paragraphs
    sections = {heading: _on_one_line(" ".join(lines)) for heading, lines in paragraphs.items()}
    goal = sections.get(_GOAL, "") or next((paragraph for paragraph in sections.values() if paragraph), "")
    when = sections.get(_WHEN, "")
    sentences = [_end_sentence(procedure.title), _end_sentence(goal)]
    if when and when != goal:
        sentences.append(f"When to use it: {_end_sentence(when)}")
    # Some readers of skills refuse what looks like a tag.
    line = _on_one_line(re.sub("[<>]", " ", " ".join(filter(None, sentences)))) or _on_one_line(
        procedure.slug
    )
    if len(line) <= MAX_DESCRIPTION:
        return line
    return line[: MAX_DESCRIPTION - 1].rsplit(" ", 1)[0].rstrip() + "…"


def _end_sentence(text: str) -> str:
    line = _on_one_line(text)
    return f"{line}." if line and line[-1].isalnum() else line


def _on_one_line(text: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


FORMAT = Format(
    name="skill",
    label="Agent Skills",
    limits=LIMITS,
    write=write,
    media_type="application/zip",
    suffix="zip",
)
