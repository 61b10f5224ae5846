"""What a tool is for, as far as its words say so: what it does, to what, and what else it speaks of. Pure.

The names of tools are verbs and nouns in many orders (`issues_list_for_repo`, `DeleteCustomerCard`), and most
descriptions begin with a verb and what it is done to. Both are read, because either may be missing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile

from catalog.protocols.signature import Signature
from catalog.search import words

# What a tool does. A call for one of a line is hardly ever meant for a tool of another one.
_ACTIONS = {
    "read": "get fetch retrieve read show view lookup obtain display return describe download export track",
    "list": "list browse enumerate",
    "search": "search find query filter",
    "create": "create add make new post insert register generate upload append import ingest establish",
    "delete": "delete remove cancel destroy erase drop clear trash revoke unassign purge disable stop",
    "update": "update edit modify change put patch set replace move rename assign apply merge",
    "send": "send deliver publish submit invite",
    "copy": "copy duplicate clone",
    "undo": "restore untrash unlock unstar unlink unhide enable resume",
    "mark": "lock star link hide",
    "watch": "watch subscribe",
    "check": "verify validate check test",
    "accept": "accept approve",
    "reject": "reject decline dismiss deny",
    "run": "run execute start trigger initiate calculate compute estimate convert translate",
}
ACTION_OF = {verb: action for action, line in _ACTIONS.items() for verb in line.split()}
# Things that vendors call differently.
_SAME_THINGS = (
    "file document attachment",
    "message mail email sms text",
    "issue task ticket todo",
    "customer client contact",
    "employee staff worker",
    "revision version",
    "folder directory",
    "user person people member",
    "event appointment meeting",
    "comment note remark",
    "picture image photo",
    "repository repo",
    "vendor supplier",
    "invoice bill",
    "order purchase",
    "page site website",
    "price cost quote",
    "location place address",
)
THING_OF = {name: line.split()[0] for line in _SAME_THINGS for name in line.split()}
# Where what follows is no longer the thing itself.
_PREPOSITIONS = frozenset(
    (
        *("for", "in", "on", "of", "from", "to", "by", "with", "that", "which", "at", "into", "within"),
        *("under", "about", "using", "via", "based", "as", "when", "if", "where", "and", "or", "per"),
        *("between", "whose", "given", "after", "before", "over", "than", "this", "so"),
    )
)
# Before the thing, and saying nothing about it.
_FILLERS = frozenset(
    (
        *("a", "an", "the", "all", "any", "one", "several", "multiple", "specific", "specified", "existing"),
        *("new", "list", "every", "each", "your", "my", "given", "single", "complete", "full", "set"),
        *("details", "detail", "information", "info", "collection", "data", "record", "records", "resource"),
        *("resources", "instance", "instances", "paginated", "array", "its", "current"),
    )
)
_MANY = frozenset(("all", "multiple", "list", "lists", "paginated", "several"))
# Said of nearly every tool.
_EMPTY = frozenset(("use", "used", "using", "via", "return", "returned", "id", "ids", "must", "one", "also"))
# A remark on another tool is not about this one: what `confusion.sentence` writes, and its like.
_CONTRAST = re.compile(
    r",?\s*\bnot (?:for|to)\b[^.;]*|\bfor (?:that|those|this),? use\b[^.;]*", re.IGNORECASE
)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)|https?://\S+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_REQUEST = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE) /")
# The beginning of a long description says what the tool is for; the rest is rules and remarks.
_FIRST, _ALL = 200, 800
_MAX_PHRASE, _MAX_GIST = 6, 90
_UNQUOTED = str.maketrans({";": ",", "`": "", "“": "", "”": "", "*": ""})
_DOUBLED = frozenset(("get", "put", "set", "run", "stop", "drop", "submit"))
_IN_NAME, _IN_FIRST, _IN_REST, _IN_MEMBERS = 3.0, 1.5, 0.5, 0.25


@dataclass(frozen=True, slots=True)
class Purpose:
    """`things` are the phrases for what it is done to, as stems; the last of each is the thing itself.

    `words` are stems by how loudly the tool says them, `spelled` the words as they stand there. `gist` is
    the first sentence. `told_apart` is the remark on other tools, if there is one.
    """

    name: str
    action: str
    things: tuple[tuple[str, ...], ...]
    words: Mapping[str, float]
    of_name: frozenset[str]
    leading: frozenset[str]
    spelled: Mapping[str, str]
    inputs: tuple[str, ...]
    gist: str
    told_apart: str


def words_of(signatures: Iterable[Signature]) -> set[str]:
    """Whose stems `purpose` has to be given."""
    found = {word for each in signatures for text in _texts(each) for word in words.words(text)}
    return found | ACTION_OF.keys() | THING_OF.keys() | set(THING_OF.values())


def _texts(signature: Signature) -> list[str]:
    description, told_apart = _split(signature.description)
    return [signature.name, signature.title, description[:_ALL], told_apart, *_members(signature)]


def _members(signature: Signature) -> list[str]:
    found = [each.name for each in (*signature.inputs, *signature.outputs)]
    return found + [value.name for each in signature.inputs for value in each.allowed_values[:20]]


def _split(description: str) -> tuple[str, str]:
    """What a description says of the tool itself, and its remarks on others."""
    plain = " ".join(_LINK.sub(r"\1", description).split())
    return _CONTRAST.sub("", plain), " ".join(_CONTRAST.findall(plain))


class Stems:
    """The stems of words, and by stem what a verb does and what a thing is called in one word for all.

    A word without a stem, such as one of which a long text was cut, is its own.
    """

    def __init__(self, stems: Mapping[str, str]) -> None:
        self._stems = stems
        self._actions = {stems[verb]: action for verb, action in ACTION_OF.items() if stems[verb]}
        self._things = {stems[name]: stems[thing] for name, thing in THING_OF.items()}

    def action(self, word: str) -> str:
        return ACTION_OF.get(word) or self._actions.get(self._stems.get(word, word), "")

    def of(self, word: str) -> str:
        """Empty for a word that tells nothing: one that every text has, or that says what is done."""
        if word in _EMPTY or self.action(word):
            return ""
        return self.thing(word)

    def is_plural(self, word: str) -> bool:
        return (
            word.endswith("s")
            and not word.endswith(("ss", "us", "is"))
            and self._stems.get(word, word) != word
        )

    def thing(self, word: str) -> str:
        stem = self._stems.get(word, word)
        return self._things.get(stem, stem)


def purpose(signature: Signature, stems: Stems) -> Purpose:
    description, told_apart = _split(signature.description)
    title = "" if words.name_key(signature.title) == words.name_key(signature.name) else signature.title
    first = _first_sentence(description) or title
    name, lead = words.words(signature.name), words.words(first[:_FIRST])
    spelled: dict[str, str] = {}
    weights: dict[str, float] = {}
    for weight, said in (
        (_IN_NAME, name),
        (_IN_FIRST, [*lead, *words.words(title)]),
        (_IN_REST, words.words(description[:_ALL])),
        (_IN_MEMBERS, words.words(" ".join(_members(signature)))),
    ):
        for word in said:
            if stem := stems.of(word):
                spelled.setdefault(stem, word)
        for stem in {stems.of(word) for word in said} - {""}:
            weights[stem] = weights.get(stem, 0.0) + weight
    clause = words.words(first[:_FIRST].partition(",")[0])
    phrases = _things(name, clause if not _REQUEST.match(first) else [], stems)
    leading = [action for word in lead[:3] if (action := stems.action(word))]
    place = _verb(name)
    action = ACTION_OF[name[place]] if place is not None else (leading or [""])[0]
    if action == "read" and ("list" in leading[:1] or _means_many(phrases, lead, stems)):
        action = "list"
    return Purpose(
        name=signature.name,
        action=action,
        things=tuple(tuple(stem for word in each if (stem := stems.thing(word))) for each in phrases),
        words=weights,
        of_name=frozenset({stems.of(word) for word in name} - {""}),
        leading=frozenset({stems.of(word) for word in lead} - {""}),
        spelled=spelled,
        inputs=tuple(each.name for each in signature.inputs),
        gist=first,
        told_apart=told_apart,
    )


def _means_many(phrases: Sequence[Sequence[str]], lead: Sequence[str], stems: Stems) -> bool:
    """Of a `get`: whether one is meant or all of them."""
    return not _MANY.isdisjoint(lead[:_MAX_PHRASE]) or bool(phrases and stems.is_plural(phrases[0][-1]))


def doing(gist: str) -> str:
    """The gist as it stands behind “for”: “Deletes the draft.” is “deleting the draft”."""
    plain = gist[:_FIRST].translate(_UNQUOTED).rstrip(".!? ").replace(". ", ", ").replace(".", " ")
    if _REQUEST.match(gist):
        return ""
    # A name alone, as of `RetrieveEmployee`, is taken apart.
    found = plain.split() if " " in plain else words.words(plain)
    place = next((at for at, word in enumerate(found) if not _is_adverb(word)), None)
    if place is None:
        return ""
    verb = found[place].strip(",")
    if base := _base(verb.lower()):
        found[place] = found[place].replace(verb, _gerund(base))
    said = " ".join(found)
    said = said[0].lower() + said[1:] if said[1:2].islower() or base else said
    return said if len(said) <= _MAX_GIST else said[:_MAX_GIST].rsplit(" ", 1)[0].rstrip(",")


def _is_adverb(word: str) -> bool:
    return word.lower().endswith("ly") or word.lower() == "and"


def _base(verb: str) -> str:
    """Of a verb that the table has, or that ends as only a verb would in front of a sentence."""
    ends = (("ies", "y"), ("es", ""), ("s", ""))
    cut = [verb.removesuffix(end) + instead for end, instead in ends if verb.endswith(end)]
    known = next((each for each in (verb, *cut) if each in ACTION_OF), "")
    if known or not verb.isalpha() or not verb.endswith("s") or verb.endswith(("ss", "us", "is")):
        return known
    return cut[-2] if verb.endswith(("shes", "ches", "xes", "sses")) else cut[-1]


def _gerund(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb[:-1]}ing"
    return f"{verb}{verb[-1] if verb in _DOUBLED else ''}ing"


def _first_sentence(text: str) -> str:
    found = _SENTENCE_END.split(text, maxsplit=2)
    # A name alone may stand in front of it.
    is_label = len(found) > 1 and len(found[0].split()) == 1
    return found[1] if is_label else found[0]


def _things(name: Sequence[str], lead: Sequence[str], stems: Stems) -> list[Sequence[str]]:
    """What the verb at the beginning of the sentence is done to, then what the one in the name is."""
    told: Sequence[str] = ()
    if lead and stems.action(lead[0]):
        kept = (
            word not in _FILLERS and word not in _PREPOSITIONS and not stems.action(word) for word in lead
        )
        begins = next((place for place, is_kept in enumerate(kept) if is_kept), len(lead))
        told = _until_preposition(lead[begins : begins + _MAX_PHRASE])
    place = _verb(name)
    if place is None:
        return [phrase for phrase in (told, name[-2:]) if phrase]
    rest = list(dropwhile(("for", "to", "of").__contains__, name[place + 1 :]))
    behind = [word for word in _until_preposition(rest) if word not in _FILLERS and not word.isdigit()]
    return [phrase for phrase in (told, behind or name[max(0, place - 2) : place]) if phrase]


def _until_preposition(said: Sequence[str]) -> Sequence[str]:
    return list(takewhile(lambda word: word not in _PREPOSITIONS, said))


def _verb(name: Sequence[str]) -> int | None:
    """Its place: before the thing, as in `issues_delete_comment`, or behind it, as in `comments_delete`."""
    verbs = [place for place, word in enumerate(name) if word in ACTION_OF]
    return (verbs[-1] if verbs[-1] == len(name) - 1 else verbs[0]) if verbs else None
