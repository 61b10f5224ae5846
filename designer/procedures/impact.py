"""Find the lines of procedures that another version of a tool breaks. Pure.

Members are matched by the vendor's ids, as in stored references. A new name alone breaks no line, because the
text follows it; it is reported, because the words around the reference may have to change.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from catalog.rules.diff import Change
from core.schema import pointers
from core.translatable import Wording
from core.translatable import mark as _
from designer.procedures import input_names, lint, references, supplies
from designer.procedures.references import Vocabulary, VocabularyTool
from designer.signatures.effective import why_not_preset
from protocols.signature import Parameter, Signature

_PIN_NAMED = re.compile(r"\{(?:tool|in|out):(\d{1,18})")


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to the tool, to one of its members, or to an item of the conversation.

    member: the id of the input or output, or the name of the item.
    is_call: False if the sentence forbids the call.
    """

    line: int
    kind: references.Kind
    member: str = ""
    value: str = ""
    is_call: bool = False


class LineImpact(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a change on one line of a procedure.

    message: a wording that continues “Refill”, line 14.
    breaks: False if the line only has to be read again.
    """

    line: int
    message: str
    breaks: bool = True


class _Changes(msgspec.Struct, frozen=True):
    """Breaking changes by side and member id; `whole` by side only."""

    members: Mapping[tuple[str, str], Sequence[Change]]
    of_side: Mapping[str, Sequence[Change]]
    required: Sequence[str]
    kind: Change | None


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A tool in two versions, with the vendor's signatures and with those that a model sees.

    version: the name of the other version for sentences.
    """

    version: str
    before: Signature
    after: Signature
    changes: Sequence[Change]
    now: VocabularyTool
    then: VocabularyTool

    def group_changes(self) -> _Changes:
        ids = {
            side: {
                "removed": {parameter.name: parameter.id for parameter in before},
                "": {parameter.name: parameter.id for parameter in after},
            }
            for side, before, after in (
                ("inputs", self.before.inputs, self.after.inputs),
                ("outputs", self.before.outputs, self.after.outputs),
            )
        }
        members: defaultdict[tuple[str, str], list[Change]] = defaultdict(list)
        of_side: defaultdict[str, list[Change]] = defaultdict(list)
        required: list[str] = []
        kind = None
        for change in filter(_may_break_lines, self.changes):
            side, *segments = pointers.split(f"/{change.path}")
            if side in ids and segments:
                # A removed member has its id only in the old version; all others use the new one.
                is_gone = len(segments) == 1 and change.kind == "removed"
                member = ids[side]["removed" if is_gone else ""].get(segments[0], segments[0])
                if side == "inputs" and (
                    segments[1:] == ["required"] or (len(segments) == 1 and change.kind == "added")
                ):
                    required.append(member)
                else:
                    members[side, member].append(change)
            elif side in ("schema_rest", "outputs_rest"):
                of_side["inputs" if side == "schema_rest" else "outputs"].append(change)
            elif side == "kind":
                kind = change
        return _Changes(members, of_side, required, kind)

    def find_renames(self, uses: Iterable[Use]) -> Iterator[LineImpact]:
        if self.now.name != self.then.name:
            template = _(
                "names “{tool}()”, which is “{new_name}()” in version {version}. The reference follows by "
                "itself; read the words around it."
            )
            message = self._fill_template(template, new_name=self.then.name)
            for use in uses:
                if use.kind != "item":
                    yield LineImpact(line=use.line, message=message, breaks=False)
        renamed_input = _(
            "names the input “{name}”, which is “{new_name}” in version {version}. The reference follows by "
            "itself; read the words around it."
        )
        renamed_output = _(
            "names the output “{name}”, which is “{new_name}” in version {version}. The reference follows by "
            "itself; read the words around it."
        )
        for side, kind, template in (
            ("inputs", "input", renamed_input),
            ("outputs", "output", renamed_output),
        ):
            current = {member.id: member.name for member in getattr(self.now, side)}
            moved = {member.id: member.name for member in getattr(self.then, side)}
            for use in uses:
                before, after = current.get(use.member), moved.get(use.member)
                if use.kind == kind and before and after and before != after:
                    message = self._fill_template(template, name=before, new_name=after)
                    yield LineImpact(line=use.line, message=message, breaks=False)

    def find_broken_members(
        self, uses: Iterable[Use], groups: _Changes, lines: Sequence[str]
    ) -> Iterator[LineImpact]:
        before = {parameter.id: parameter for parameter in self.before.inputs}
        after = {parameter.id: parameter for parameter in self.after.inputs}
        for use in uses:
            if use.kind not in ("input", "output"):
                continue
            side = f"{use.kind}s"
            members = getattr(self.now, side)
            name = next((member.name for member in members if member.id == use.member), use.member)
            is_input = use.kind == "input"
            for change in (*groups.members.get((side, use.member), ()), *groups.of_side.get(side, ())):
                path = change.path.split("/")
                if change.kind == "renamed" and path[2:] == ["name"]:
                    continue
                if change.kind == "removed" and len(path) == 2:
                    template = (
                        _("gives the input “{name}”, which version {version} does not have.")
                        if is_input
                        else _("uses the output “{name}”, which version {version} does not have.")
                    )
                    yield LineImpact(line=use.line, message=self._fill_template(template, name=name))
                    continue
                if use.value and use.member in before and use.member in after:
                    fitted = _accepts_text(before[use.member], use.value, self.before)
                    if fitted and not _accepts_text(after[use.member], use.value, self.after):
                        yield self.value_lost(use.line, name, use.value)
                    continue
                segments = pointers.split(f"/{change.path}")
                if change.kind != "narrowed" or segments[-2:-1] not in (("allowed_values",), ("enum",)):
                    template = (
                        _("gives the input “{name}”. In version {version}: {change}")
                        if is_input
                        else _("uses the output “{name}”. In version {version}: {change}")
                    )
                    message = self._fill_template(template, name=name, change=change.wording)
                    yield LineImpact(line=use.line, message=message)
                elif re.search(rf"(?<!\w){re.escape(segments[-1])}(?!\w)", lines[use.line - 1]):
                    yield self.value_lost(use.line, name, segments[-1])

    def find_broken_calls(self, uses: Iterable[Use], groups: _Changes) -> Iterator[LineImpact]:
        inputs = {row.id: row for row in self.then.inputs}
        calls = [use for use in uses if use.is_call]
        for member in groups.required:
            parameter = inputs.get(member)
            # A preset supplies it, or the model does not see it.
            if parameter is None or not parameter.is_required or parameter.is_given:
                continue
            supplying_lines = [
                use.line
                for use in uses
                if (use.kind == "input" and use.member in (member, parameter.name))
                or (
                    use.kind == "item"
                    and input_names.names_the_same(parameter.name, input_names.words_of(use.member))
                )
            ]
            for call in calls:
                if not any(line <= call.line for line in supplying_lines):
                    template = _("calls “{tool}()” without “{name}”, which version {version} requires.")
                    yield LineImpact(
                        line=call.line, message=self._fill_template(template, name=parameter.name)
                    )
        if groups.kind is not None:
            for call in calls:
                template = _("calls “{tool}()”. In version {version}: {change}")
                message = self._fill_template(template, change=groups.kind.wording)
                yield LineImpact(line=call.line, message=message)

    def find_broken_values(self, text: str, groups: _Changes) -> Iterator[LineImpact]:
        # Values near a reference, as in “and set channel to "fax"”.
        before = {row.id: row for row in self.before.inputs}
        after = {row.id: row for row in self.after.inputs}
        lines = text.split("\n")
        for parameter in self.now.inputs:
            if ("inputs", parameter.id) not in groups.members or parameter.id not in after:
                continue
            for stated_value in lint.stated_values(parameter.name, text):
                # A value in prose belongs to the tool that was mentioned last before it.
                pins_by_line = (
                    set(_PIN_NAMED.findall(line)) for line in reversed(lines[: stated_value.line])
                )
                is_of_this = str(self.now.pin) in next((pins for pins in pins_by_line if pins), ())
                fitted = is_of_this and _accepts_text(before[parameter.id], stated_value.value, self.before)
                if fitted and not _accepts_text(after[parameter.id], stated_value.value, self.after):
                    yield self.value_lost(stated_value.line, parameter.name, stated_value.value)

    def value_lost(self, line: int, name: str, value: str) -> LineImpact:
        template = _("gives “{name}” the value “{value}”, which version {version} does not accept.")
        return LineImpact(line=line, message=self._fill_template(template, name=name, value=value))

    def _fill_template(self, template: str, **values: Any) -> Wording:
        return Wording(template, {"tool": self.now.name, "version": self.version, **values})


def concerns_lines(changes: Iterable[Change]) -> bool:
    """Return whether any change may break a line."""
    return any(_may_break_lines(change) for change in changes)


def impacts(text: str, move: Move) -> list[LineImpact]:
    """Return the affected lines of a stored text, in order, each sentence once per line."""
    groups = move.group_changes()
    references_ = uses(text, move.now)
    results = [
        *move.find_renames(references_),
        *move.find_broken_members(references_, groups, text.split("\n")),
        *move.find_broken_calls(references_, groups),
        *move.find_broken_values(text, groups),
    ]
    # Several references in one line may have the same effect.
    return sorted(dict.fromkeys(results), key=lambda row: (row.line, not row.breaks, row.message))


def uses(text: str, tool: VocabularyTool) -> list[Use]:
    """Return the references of a stored text to this tool, and to items."""
    vocabulary, result = Vocabulary(tools=(tool,)), []
    for number, line in enumerate(text.split("\n"), 1):
        # Most lines do not mention the tool, and parsing costs far more than this check.
        if f":{tool.pin}" not in line and "{item:" not in line and "=%7B" not in line:
            continue
        end = 0
        sentences = supplies.sentences(line)
        for piece in references.parse(line, vocabulary):
            end += len(piece.stored)
            reference = piece.reference
            items = [member.item for member in reference.members if member.item] if reference else []
            result += [Use(line=number, kind="item", member=item, value="", is_call=False) for item in items]
            if reference is None or (reference.kind != "item" and reference.target != tool.pin):
                continue
            is_call = reference.kind in ("tool", "input") and not supplies.is_ruled_out(end, sentences)
            members = [(member.id, member.literal) for member in reference.members]
            for member, value in members or [(reference.name if reference.kind == "item" else "", "")]:
                result.append(
                    Use(line=number, kind=reference.kind, member=member, value=value, is_call=is_call)
                )
    return result


def _may_break_lines(change: Change) -> bool:
    return change.class_ == "breaking" and not change.path.startswith("requirements/")


def _accepts_text(parameter: Parameter, text: str, signature: Signature) -> bool:
    # A text has no types: 30 may be a number or a text.
    candidates: list[object] = [text]
    with suppress(msgspec.DecodeError):
        candidates.append(msgspec.json.decode(text))
    return any(not why_not_preset(parameter, value, signature.schema_rest) for value in candidates)
