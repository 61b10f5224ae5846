"""Which lines of procedures another version of a tool breaks. Pure.

Matched by the vendor's ids, as references are stored. A new name alone breaks no line, because the text
follows it; it is told, because the words around the reference may have to follow too.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from catalog.rules.diff import Change
from core.schema import pointers
from designer.procedures import input_names, lint, references, supplies
from designer.procedures.references import KnownTool, Vocabulary
from designer.signatures.effective import why_not_preset
from protocols.signature import Parameter, Signature

_PIN_NAMED = re.compile(r"\{(?:tool|in|out):(\d{1,18})")
_FOLLOWS = "The reference follows by itself; read the words around it."


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a text that refers to the tool, to one of its members, or to an item of the conversation.

    `member` is the id of the input or output, or the name of the item. `is_call` is False where the sentence
    says not to call it.
    """

    line: int
    kind: references.Kind
    member: str = ""
    value: str = ""
    is_call: bool = False


class LineImpact(msgspec.Struct, frozen=True, kw_only=True):
    """`message` goes on from “Refill”, line 14. `breaks` is False for what only has to be read again."""

    line: int
    message: str
    breaks: bool = True


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A tool in two versions: as the vendor says them, and as the model is shown them with our words.

    `version` names the other version in a sentence.
    """

    version: str
    before: Signature
    after: Signature
    changes: Sequence[Change]
    now: KnownTool
    then: KnownTool


class _Changes(msgspec.Struct, frozen=True):
    """By side and id of the member; `whole` by side alone."""

    members: Mapping[tuple[str, str], Sequence[Change]]
    whole: Mapping[str, Sequence[Change]]
    required: Sequence[str]
    kind: Change | None


def concerns_lines(changes: Iterable[Change]) -> bool:
    """Whether there is anything to look for in texts."""
    return any(_is_of_lines(change) for change in changes)


def impacts(text: str, move: Move) -> list[LineImpact]:
    """For a stored text, in its order and each sentence once a line."""
    changed = _sorted(move)
    used = uses(text, move.now)
    found = [
        *_of_names(used, move),
        *_of_members(used, changed, move, text.split("\n")),
        *_of_calls(used, changed, move),
        *_of_values_in_prose(text, changed, move),
    ]
    # Several references in one line may say the same.
    return sorted(dict.fromkeys(found), key=lambda each: (each.line, not each.breaks, each.message))


def uses(text: str, tool: KnownTool) -> list[Use]:
    """What a stored text refers to of this tool, and the items that it names."""
    vocabulary, found = Vocabulary(tools=(tool,)), []
    for number, line in enumerate(text.split("\n"), 1):
        # Most lines name nothing of the tool, and parsing costs far more than this look.
        if f":{tool.pin}" not in line and "{item:" not in line and "=%7B" not in line:
            continue
        end = 0
        said = supplies.sentences(line)
        for piece in references.parse(line, vocabulary):
            end += len(piece.stored)
            reference = piece.reference
            items = [member.item for member in reference.members if member.item] if reference else []
            found += [Use(line=number, kind="item", member=item, value="", is_call=False) for item in items]
            if reference is None or (reference.kind != "item" and reference.target != tool.pin):
                continue
            is_call = reference.kind in ("tool", "input") and not supplies.is_ruled_out(end, said)
            members = [(each.id, each.literal) for each in reference.members]
            for member, value in members or [(reference.name if reference.kind == "item" else "", "")]:
                found.append(
                    Use(line=number, kind=reference.kind, member=member, value=value, is_call=is_call)
                )
    return found


def _is_of_lines(change: Change) -> bool:
    return change.class_ == "breaking" and not change.path.startswith("requirements/")


def _sorted(move: Move) -> _Changes:
    ids = {
        side: {
            "removed": {each.name: each.id for each in before},
            "": {each.name: each.id for each in after},
        }
        for side, before, after in (
            ("inputs", move.before.inputs, move.after.inputs),
            ("outputs", move.before.outputs, move.after.outputs),
        )
    }
    members: defaultdict[tuple[str, str], list[Change]] = defaultdict(list)
    whole: defaultdict[str, list[Change]] = defaultdict(list)
    required: list[str] = []
    kind = None
    for change in filter(_is_of_lines, move.changes):
        side, *rest = pointers.split(f"/{change.path}")
        if side in ids and rest:
            # What is gone has its id in the old version only; everything else goes by the new one.
            is_gone = len(rest) == 1 and change.kind == "removed"
            member = ids[side]["removed" if is_gone else ""].get(rest[0], rest[0])
            if side == "inputs" and (rest[1:] == ["required"] or (len(rest) == 1 and change.kind == "added")):
                required.append(member)
            else:
                members[side, member].append(change)
        elif side in ("schema_rest", "outputs_rest"):
            whole["inputs" if side == "schema_rest" else "outputs"].append(change)
        elif side == "kind":
            kind = change
    return _Changes(members, whole, required, kind)


def _of_names(used: Iterable[Use], move: Move) -> Iterator[LineImpact]:
    if move.now.name != move.then.name:
        message = f"names “{move.now.name}()”, which is “{move.then.name}()” in {move.version}. {_FOLLOWS}"
        for use in used:
            if use.kind != "item":
                yield LineImpact(line=use.line, message=message, breaks=False)
    for side, kind in (("inputs", "input"), ("outputs", "output")):
        now = {each.id: each.name for each in getattr(move.now, side)}
        then = {each.id: each.name for each in getattr(move.then, side)}
        for use in used:
            before, after = now.get(use.member), then.get(use.member)
            if use.kind == kind and before and after and before != after:
                message = f"names the {kind} “{before}”, which is “{after}” in {move.version}. {_FOLLOWS}"
                yield LineImpact(line=use.line, message=message, breaks=False)


def _of_members(
    used: Iterable[Use], changed: _Changes, move: Move, lines: Sequence[str]
) -> Iterator[LineImpact]:
    before = {each.id: each for each in move.before.inputs}
    after = {each.id: each for each in move.after.inputs}
    for use in used:
        if use.kind not in ("input", "output"):
            continue
        side = f"{use.kind}s"
        shown = getattr(move.now, side)
        name = next((each.name for each in shown if each.id == use.member), use.member)
        verb = "gives the input" if use.kind == "input" else "uses the output"
        for change in (*changed.members.get((side, use.member), ()), *changed.whole.get(side, ())):
            path = change.path.split("/")
            if change.kind == "renamed" and path[2:] == ["name"]:
                continue
            if change.kind == "removed" and len(path) == 2:
                message = f"{verb} “{name}”, which {move.version} does not have."
                yield LineImpact(line=use.line, message=message)
                continue
            if use.value and use.member in before and use.member in after:
                fitted = _fits(before[use.member], use.value, move.before)
                if fitted and not _fits(after[use.member], use.value, move.after):
                    yield _value_lost(use.line, name, use.value, move)
                continue
            value = _value_gone(change)
            if value is None:
                yield LineImpact(
                    line=use.line, message=f"{verb} “{name}”. In {move.version}: {change.sentence}"
                )
            elif re.search(rf"(?<!\w){re.escape(value)}(?!\w)", lines[use.line - 1]):
                yield _value_lost(use.line, name, value, move)


def _of_calls(used: Iterable[Use], changed: _Changes, move: Move) -> Iterator[LineImpact]:
    asked = {each.id: each for each in move.then.inputs}
    calls = [use for use in used if use.is_call]
    for member in changed.required:
        known = asked.get(member)
        # A preset stands in for it, or the model is not shown it.
        if known is None or not known.is_required or known.is_given:
            continue
        given = [
            use.line
            for use in used
            if (use.kind == "input" and use.member in (member, known.name))
            or (
                use.kind == "item"
                and input_names.names_the_same(known.name, input_names.words_of(use.member))
            )
        ]
        for call in calls:
            if not any(line <= call.line for line in given):
                message = f"calls “{move.now.name}()” without “{known.name}”, which {move.version} requires."
                yield LineImpact(line=call.line, message=message)
    if changed.kind is not None:
        for call in calls:
            message = f"calls “{move.now.name}()”. In {move.version}: {changed.kind.sentence}"
            yield LineImpact(line=call.line, message=message)


def _of_values_in_prose(text: str, changed: _Changes, move: Move) -> Iterator[LineImpact]:
    # Values beside a reference, as in “and set channel to "fax"”, of the tool that was spoken of last.
    before = {each.id: each for each in move.before.inputs}
    after = {each.id: each for each in move.after.inputs}
    lines = text.split("\n")
    for known in move.now.inputs:
        if ("inputs", known.id) not in changed.members or known.id not in after:
            continue
        for said in lint.values_said(known.name, text):
            # Prose about a value goes with the tool that was named last before it.
            named = (set(_PIN_NAMED.findall(line)) for line in reversed(lines[: said.line]))
            is_of_this = str(move.now.pin) in next((pins for pins in named if pins), ())
            fitted = is_of_this and _fits(before[known.id], said.value, move.before)
            if fitted and not _fits(after[known.id], said.value, move.after):
                yield _value_lost(said.line, known.name, said.value, move)


def _value_gone(change: Change) -> str | None:
    # The one value that is not taken any more, if that is the change.
    path = pointers.split(f"/{change.path}")
    is_one = change.kind == "narrowed" and path[-2:-1] in (("allowed_values",), ("enum",))
    return path[-1] if is_one else None


def _value_lost(line: int, name: str, value: str, move: Move) -> LineImpact:
    message = f"gives “{name}” the value “{value}”, which {move.version} does not take."
    return LineImpact(line=line, message=message)


def _fits(parameter: Parameter, written: str, signature: Signature) -> bool:
    # A text has no types: 30 may be meant as a number or as a text.
    meant: list[object] = [written]
    with suppress(msgspec.DecodeError):
        meant.append(msgspec.json.decode(written))
    return any(not why_not_preset(parameter, value, signature.schema_rest) for value in meant)
