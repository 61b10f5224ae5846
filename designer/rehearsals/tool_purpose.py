"""What a tool is for, as far as its words say so: what it does, to what, and what else it speaks of. Pure.

The names of tools are verbs and nouns in many orders (`issues_list_for_repo`, `DeleteCustomerCard`), and most
descriptions begin with a verb and what it is done to. Both are read, because either may be missing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile

from catalog.search import words
from protocols.signature import Signature

# What a tool does. A call for one of a line is hardly ever meant for a tool of another one.
_ACTIONS = {
    "read": "get fetch retrieve read show view lookup obtain display return describe download export track"
    " give load access scrape extract",
    "list": "list browse enumerate",
    "search": "search find query filter discover explore",
    "create": "create add make new post insert register upload append import ingest establish enroll",
    "generate": "generate render draw compose write",
    "delete": "delete remove cancel destroy erase drop clear trash revoke unassign purge disable stop unpin",
    "update": "update edit modify change put patch set replace move rename assign apply merge save",
    "send": "send deliver publish submit invite notify",
    "copy": "copy duplicate clone",
    "undo": "restore untrash unlock unstar unlink unhide enable resume",
    "mark": "lock star link hide pin",
    "watch": "watch subscribe",
    "check": "verify validate check test",
    "analyze": "analyze analyse assess evaluate examine inspect measure detect identify summarize scan"
    " monitor compare",
    "accept": "accept approve",
    "reject": "reject decline dismiss deny",
    "run": "run execute start trigger initiate launch perform",
    "compute": "calculate compute estimate count predict forecast simulate",
    "convert": "convert translate transform transcribe encode",
    "buy": "buy book reserve order purchase rent",
}
ACTION_OF = {verb: action for action, line in _ACTIONS.items() for verb in line.split()}
# These are things in many names, as in `create_order`: another verb in the name says what is done.
_THINGS_TOO = frozenset(
    (
        *("list", "order", "book", "test", "filter", "query", "search", "track", "export", "set", "post"),
        *(
            "put",
            "patch",
            "copy",
            "view",
            "change",
            "check",
            "link",
            "star",
            "lock",
            "pin",
            "trash",
            "purchase",
        ),
        *("display", "count", "watch", "draw", "load", "access", "move", "measure", "start", "stop", "run"),
    )
)
# Of these the verb says nothing beyond its action; “summarize” and “translate” say what a tool is for.
_COMMON = frozenset(("read", "list", "search", "create", "delete", "update", "send"))
# Things that vendors call differently.
_SAME_THINGS = (
    "file document attachment",
    "message mail email sms text",
    "issue task ticket todo",
    "customer client contact",
    "employee staff worker",
    "revision version",
    "folder directory",
    "user person people member participant",
    "event appointment meeting",
    "comment note remark memo",
    "picture image photo photograph",
    "repository repo",
    "seller vendor supplier merchant",
    "invoice bill",
    "order purchase",
    "page site website webpage web internet",
    "price cost quote",
    "location place address",
    "company business firm corporation",
    "car vehicle automobile",
    "movie film",
    "song track",
    "student pupil learner",
    "drug medication medicine",
    "news article headline",
    "job vacancy",
    "hotel accommodation lodging",
    "statistic stat stats metric",
    "summary overview",
    "category genre",
    "match game fixture",
    "conversation chat",
    "cart basket",
    "coupon voucher",
    "webhook hook",
    "cryptocurrency crypto coin",
    "tip advice recommendation suggestion",
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
        *("batch", "bulk", "default"),
    )
)
# Of a thing, and none itself.
_ABOUT = frozenset(("id", "ids", "info", "information", "detail", "details", "data"))
_MANY = frozenset(("all", "multiple", "list", "lists", "paginated", "several"))
# Said of nearly every tool.
_EMPTY = frozenset(
    (
        *_ABOUT,
        *("use", "used", "using", "via", "return", "returned", "must", "one", "also", "api", "endpoint"),
        *("method", "tool", "specific", "specified", "given", "existing", "single", "new", "provide"),
        *("provides", "provided", "allow", "allows", "json"),
    )
)
# What stands before the verb in some descriptions: “This endpoint will”, “Use this method to”.
_CAN = r"(?: (?:is|are|was|used|will|can|be|to|for|that|which|lets?|allows?|enables?|helps?|you|users|us))"
_OPENING = re.compile(
    r"^(?:(?:(?:you (?:can|may) )?(?:use|call) )?(?:this|the|an?) (?:[\w-]+ )?(?:end ?point|api|method|tool)"
    rf"{_CAN}*|(?:(?:this|the|an?) )?(?:end ?point|api|method|tool|operation|function|service|app){_CAN}+) ",
    re.IGNORECASE,
)
# A remark on another tool is not about this one: what `confusion.sentence` writes, and its like.
_CLAUSE = r"(?:`[^`]*`|[^.;])*"
_CONTRAST = re.compile(
    rf",?\s*\bnot (?:for|to)\b{_CLAUSE}|\b(?:for (?:that|those|this)|otherwise),? use\b{_CLAUSE}",
    re.IGNORECASE,
)
# What it is only for says as much about others.
_LIMIT = re.compile(rf"\bonly (?:for|if|when|where)\b{_CLAUSE}", re.IGNORECASE)
# Behind a description that ends without a full stop.
_REMARK = re.compile(r"(?<![.!?:;]) (?=Use this (?:only )?for )")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)|https?://\S+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_REQUEST = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE) /")
# What begins like this is a whole sentence, which does not stand behind “for”.
_NO_PHRASE = frozenset(
    (
        *("if", "when", "this", "that", "these", "you", "your", "it", "in", "note", "please", "there", "we"),
        *("on", "by", "with", "to", "for", "i", "they", "our", "and", "or", "use", "after", "before", "once"),
    )
)
# The beginning of a long description says what the tool is for; the rest is rules and remarks.
_FIRST, _ALL = 200, 800
_MAX_PHRASE, _MAX_GIST = 6, 90
_UNQUOTED = str.maketrans({";": ",", "`": "", "“": "", "”": "", "*": ""})
_DOUBLED = frozenset(("get", "put", "set", "run", "stop", "drop", "submit"))
_IN_NAME, _IN_FIRST, _IN_REST, _IN_MEMBERS = 3.0, 1.5, 0.5, 0.25


@dataclass(frozen=True, slots=True)
class Purpose:
    """`things` are the phrases for what it is done to, as stems; the last of each is the thing itself.

    `words` are stems by how loudly the tool says them, `spelled` the words as they stand there. `inputs` are
    names in their order. `gist` is the first sentence. `told_apart` is the remark on other tools, if there is
    one, and `told` its stems; `limits` are those of what it says that it is only for.
    """

    name: str
    action: str
    verb: str
    things: tuple[tuple[str, ...], ...]
    words: Mapping[str, float]
    of_name: frozenset[str]
    leading: frozenset[str]
    spelled: Mapping[str, str]
    inputs: Mapping[str, None]
    gist: str
    told_apart: str
    told: frozenset[str]
    limits: frozenset[str]

    @property
    def said(self) -> frozenset[str]:
        """What it is for, in the words of its name and its first sentence, with the verb."""
        return self.of_name | self.leading | {self.verb} - {""}


def words_of(signatures: Iterable[Signature]) -> set[str]:
    """Whose stems `purpose` has to be given."""
    found = {word for each in signatures for text in _texts(each) for word in words.words(text)}
    return found | ACTION_OF.keys() | THING_OF.keys() | set(THING_OF.values())


def _texts(signature: Signature) -> list[str]:
    description, told_apart = _split(signature.description)
    limits = _LIMIT.findall(description)
    return [signature.name, signature.title, description[:_ALL], told_apart, *limits, *_members(signature)]


def _members(signature: Signature) -> list[str]:
    found = [each.name for each in (*signature.inputs, *signature.outputs)]
    return found + [value.name for each in signature.inputs for value in each.allowed_values[:20]]


def _split(description: str) -> tuple[str, str]:
    """What a description says of the tool itself, and its remarks on others."""
    plain = _REMARK.sub(". ", " ".join(_LINK.sub(r"\1", description).split()))
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
        if word in _EMPTY or self.action(word) in _COMMON:
            return ""
        return self.thing(word)

    def is_plural(self, word: str) -> bool:
        return (
            word.endswith("s")
            and not word.endswith(("ss", "us", "is", "ics"))
            and self._stems.get(word, word) != word
        )

    def thing(self, word: str) -> str:
        stem = self._stems.get(word, word)
        return self._things.get(stem, stem)


def purpose(signature: Signature, stems: Stems) -> Purpose:
    description, told_apart = _split(signature.description)
    title = "" if words.name_key(signature.title) == words.name_key(signature.name) else signature.title
    first = _OPENING.sub("", _first_sentence(description) or title)
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
    action = _action(name, lead, stems)
    if action == "read" and _means_many(phrases, lead, stems):
        action = "list"
    return Purpose(
        name=signature.name,
        action=action,
        verb=stems.thing(lead[0]) if lead else "",
        things=tuple(
            tuple(stem for word in each if word not in _ABOUT and (stem := stems.thing(word)))
            for each in phrases
        ),
        words=weights,
        of_name=frozenset({stems.of(word) for word in name} - {""}),
        leading=frozenset({stems.of(word) for word in lead} - {""}),
        spelled=spelled,
        inputs=dict.fromkeys(each.name for each in signature.inputs),
        gist=first,
        told_apart=told_apart,
        told=frozenset(stems.thing(word) for word in words.words(told_apart)),
        limits=frozenset(stems.thing(word) for word in words.words(" ".join(_LIMIT.findall(description)))),
    )


def _action(name: Sequence[str], lead: Sequence[str], stems: Stems) -> str:
    """As the sentence says; where it only returns something, as the name does."""
    told = next((stems.action(word) for word in lead if not _is_adverb(word)), "")
    place = _verb(name)
    if told not in ("", "read") or (told and place is None):
        return told
    if place is not None:
        return ACTION_OF[name[place]]
    return next((action for word in lead[:3] if (action := stems.action(word))), "")


def _means_many(phrases: Sequence[Sequence[str]], lead: Sequence[str], stems: Stems) -> bool:
    """Of a `get`: whether one is meant or all of them."""
    return not _MANY.isdisjoint(lead[:_MAX_PHRASE]) or bool(phrases and stems.is_plural(phrases[0][-1]))


def doing(one: Purpose) -> str:
    """What it does as it stands behind “for”: “Deletes the draft.” is “deleting the draft”.

    By its name, where its description does not say so in a phrase.
    """
    if said := _phrased(one.gist):
        return said
    name = words.words(one.name)
    place = _verb(name)
    if place is not None:
        name = [name[place], *name[max(0, place - _MAX_PHRASE) : place], *name[place + 1 :]]
    return _phrased(" ".join(name)) or one_line(one.name)


def _phrased(gist: str) -> str:
    plain = gist[:_FIRST].translate(_UNQUOTED).rstrip(".!? ").replace(". ", ", ").replace(".", " ")
    # A name alone, as of `RetrieveEmployee`, is taken apart.
    found = plain.split() if " " in plain else words.words(plain)
    place = next((at for at, word in enumerate(found) if not _is_adverb(word)), None)
    if place is None or _REQUEST.match(gist) or found[0].lower() in _NO_PHRASE:
        return ""
    bases = {at: base for at in (place, place + 2) if (base := _base(found[at : at + 1]))}
    if found[place + 1 : place + 2] not in (["and"], ["or"]):
        bases.pop(place + 2, None)
    for at, base in bases.items():
        found[at] = found[at].replace(found[at].strip(","), _gerund(base))
    said = " ".join(found)
    said = said[0].lower() + said[1:] if said[1:2].islower() or place in bases else said
    return said if len(said) <= _MAX_GIST else _cut(said)


def one_line(text: str) -> str:
    """Of a name that a user gave, what stands in a sentence without ending it."""
    return " ".join(text.translate(_UNQUOTED).replace(".", " ").split())[:_MAX_GIST]


def _cut(said: str) -> str:
    """Without the words at the end that wait for another one."""
    kept = said[:_MAX_GIST].rsplit(" ", 1)[0].split()
    while kept and kept[-1].lower().strip(",") in _PREPOSITIONS | _FILLERS:
        kept.pop()
    return " ".join(kept).rstrip(",")


def _is_adverb(word: str) -> bool:
    return word.lower().endswith("ly") or word.lower() == "and"


def _base(said: Sequence[str]) -> str:
    """Of a verb that the table has, or that ends as only a verb would in front of a sentence."""
    verb = "".join(said).lower().strip(",")
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
    is_verb = bool(lead) and (bool(stems.action(lead[0])) or _begins_alike(name, lead, stems))
    if is_verb:
        kept = [
            word not in _FILLERS and word not in _PREPOSITIONS and not stems.action(word) for word in lead[1:]
        ]
        begins = next((place for place, is_kept in enumerate(kept, 1) if is_kept), len(lead))
        told = _phrase(lead[begins:])
    place = _verb(name)
    if place is None and _begins_alike(name, lead, stems):
        place = 0
    if place is None:
        return [phrase for phrase in (told, name[-2:]) if phrase]
    rest = list(dropwhile(("for", "to", "of").__contains__, name[place + 1 :]))
    behind = [word for word in _until_preposition(rest) if word not in _FILLERS and not word.isdigit()]
    return [phrase for phrase in (told, behind or name[max(0, place - 2) : place]) if phrase]


def _phrase(said: Sequence[str]) -> Sequence[str]:
    """A thing with what it is of: “the score of a team” is the team's score."""
    thing = _until_preposition(said[:_MAX_PHRASE])
    rest = said[len(thing) :]
    if not thing or rest[:1] != ["of"]:
        return thing
    owner = list(dropwhile(_FILLERS.__contains__, rest[1:]))
    return [*_until_preposition(owner[:3]), *thing]


def _begins_alike(name: Sequence[str], lead: Sequence[str], stems: Stems) -> bool:
    return len(name) > 1 and bool(lead) and stems.thing(name[0]) == stems.thing(lead[0])


def _until_preposition(said: Sequence[str]) -> Sequence[str]:
    return list(takewhile(lambda word: word not in _PREPOSITIONS, said))


def _verb(name: Sequence[str]) -> int | None:
    """Its place: before the thing, as in `issues_delete_comment`, or behind it, as in `comments_delete`."""
    said = list(takewhile(lambda word: word not in ("by", "for", "with"), name))
    verbs = [place for place, word in enumerate(said) if word in ACTION_OF]
    verbs = [place for place in verbs if name[place] not in _THINGS_TOO] or verbs
    return (verbs[-1] if verbs[-1] == len(name) - 1 else verbs[0]) if verbs else None
