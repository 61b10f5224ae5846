"""The words by which prose names an input of a tool, and whether a text has them. Pure.

People write “the account number” for `accountID` and “which day” for `departure_date`. These tables and
functions compare an input's name with a text; `supplies` decides whether the sentence collects the value.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

# Words that an input's name may end in and a sentence may leave out: "choose a prescription" gives its id.
_GENERIC = frozenset((
    "id", "identifier", "uuid", "guid", "number", "no", "nr", "code", "key", "ref", "reference", "name",
    "value", "str", "text", "input", "param", "the", "of", "for", "to", "a", "an", "is", "new", "old",
    "current", "target", "desired", "requested", "preferred", "chosen", "selected", "pickup", "dropoff",
    "delivery", "billing", "home",
))  # fmt: skip
# Inputs that a model writes by itself, out of the conversation.
_COMPOSED = frozenset((
    "message", "body", "content", "query", "question", "prompt", "summary", "subject", "note", "comment",
    "description", "title", "q", "search", "keyword", "term", "request", "instruction", "explanation",
    "text", "reason",
))  # fmt: skip
# Inputs that the identity of a person supplies.
IDENTITY_WORDS = frozenset((
    "account", "customer", "member", "user", "patient", "client", "caller", "subscriber", "employee",
    "colleague",
))  # fmt: skip
# Words for the same kind of thing: who asks "which day" has asked for a date.
_KINDS = (
    frozenset(("date", "day", "when", "time", "hour", "week", "departure", "arrival", "train")),
    frozenset(
        ("amount", "sum", "much", "many", "money", "limit", "price", "fee", "credit", "quantity", "count")
    )
    | {"minute", "rent", "most", "budget", "pay", "spend"},
    frozenset(("email", "phone", "address", "contact", "where")),
    frozenset(("address", "where", "city", "town", "place", "location", "origin", "destination", "street"))
    | {
        "area",
        "region",
        "district",
        "venue",
        "station",
        "route",
        "room",
        "floor",
        "country",
        "near",
        "nearby",
    },
    frozenset(("type", "kind", "category", "reason", "why", "method", "mode", "option", "how", "sort")),
    frozenset(("drug", "medicine", "medication", "name", "product", "item", "article")),
    frozenset(("surname", "last", "family", "lastname")),
    frozenset(("order", "job", "case", "ticket")),
)
# Words for facts: only a question that contains such a word asks for one.
_FACTS = frozenset((
    "birth", "born", "expiry", "expiration", "expire", "issue", "issued", "purchase", "invoice", "due",
    "hire", "employment", "registration", "manufacture", "creation", "created", "update", "updated",
    "signature", "payment", "paid", "order", "effective", "cutoff", "previous", "original", "emergency",
    "billing", "shipping", "tax",
))  # fmt: skip
# Those who are asked for by "who", under whichever title.
_ROLES = frozenset(
    [
        "who",
        "teacher",
        "tutor",
        "trainer",
        "coach",
        "instructor",
        "doctor",
        "agent",
        "staff",
        "advisor",
        "engineer",
        "driver",
    ]
)
# How long something lasts.
_DURATIONS = frozenset(("month", "week", "night", "duration", "length"))
# An input that ends so names one thing, which words for its kind do not give.
ID_LIKE = re.compile(r"(?:id|number|no|code|key|ref|reference|uuid)s?$", re.IGNORECASE)
ID_WORDS = frozenset(("id", "number", "no", "code", "key", "ref", "reference", "uuid"))
# Of two ends, asking for one does not give the other.
_STARTS = frozenset(("start", "begin", "from", "first", "since"))
_ENDS = frozenset(("end", "until", "till", "last", "back", "return", "finish", "long", "dates", "through"))
_SAME = {
    "acct": "account", "addr": "address", "amt": "amount", "qty": "quantity", "tel": "phone",
    "telephone": "phone", "mobile": "phone", "mail": "email", "zip": "postcode", "postal": "postcode",
    "dob": "birth", "birthday": "birth", "birthdate": "birth", "num": "number", "identifier": "id",
    "rx": "prescription", "appt": "appointment", "msg": "message", "org": "organization",
    "organisation": "organization", "colour": "color", "cheque": "check", "emp": "employee",
    "cust": "customer", "loc": "location", "dest": "destination", "dept": "department",
}  # fmt: skip
# Synonyms of words of inputs: a question for the number plate asks for the registration.
_IMPLIED = {
    "plate": ("registration", "vehicle"), "registration": ("plate",), "car": ("vehicle",),
    "van": ("vehicle",), "order": ("job",), "job": ("order",),
    "road": ("street",), "staff": ("employee",), "personnel": ("employee",), "worker": ("employee",),
    "door": ("house",), "membership": ("member",), "flyer": ("member",), "loyalty": ("member",),
    "figure": ("reading",), "people": ("attendee", "participant"), "out": ("source",), "from": ("source",),
    "into": ("target",), "recipient": ("target",), "tag": ("label",), "arrive": ("arrival",),
    "arriving": ("arrival",), "come": ("arrival",), "depart": ("departure",), "departing": ("departure",),
    "leave": ("departure",), "leaving": ("departure",), "check": ("checkin", "checkout"),
    "back": ("return",), "returning": ("return",), "begin": ("start",), "starting": ("start",),
    "finish": ("end",), "ending": ("end",), "until": ("end",), "till": ("end",), "fly": ("flight",),
    "flew": ("flight",), "flying": ("passenger", "flight"), "move": ("new",), "instead": ("new",),
    "birth": ("date",), "born": ("birth", "date"), "expiry": ("date",), "time": ("slot",),
    "heavy": ("weight",), "tall": ("height",), "high": ("height",), "old": ("age",), "far": ("distance",),
    "big": ("size",), "large": ("size",), "wide": ("width",), "deep": ("depth",),
    "wrong": ("fault", "problem", "issue", "symptom", "defect", "damage"),
    "long": ("duration", "length"), "family": ("surname",), "last": ("surname",), "surname": ("last",),
}  # fmt: skip
# An input with such a word asks for a filter, and a result states a fact.
_WANTED = frozenset(("new", "desired", "requested", "preferred", "target"))


@lru_cache(maxsize=4_096)
def words_of(name: str) -> frozenset[str]:
    """Return the words of a name in lower case and singular: `accountIDs` gives account and id."""
    parts = re.sub(r"([a-z\d])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", name)
    return frozenset(_stem_of(word) for word in re.findall(r"[^\W\d_]+", parts.lower()))


def _stem_of(word: str) -> str:
    word = _SAME.get(word, word)
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return _SAME.get(word, word)


def names_the_same(name: str, others: frozenset[str]) -> bool:
    """Return whether the words contain those of `name`, except words such as “id” that speech omits."""
    words = words_of(name)
    distinctive = words - _GENERIC
    return distinctive <= others if distinctive else bool(words) and words <= others


def is_given_by(name: str, output: str) -> bool:
    """Return whether an output of this name supplies the input called `name`. No output supplies a value that
    the user wants anew.
    """
    words, others = words_of(name), words_of(output)
    # `end_date` is no other date: of a `to_date` only the word for its kind is left.
    is_any_date = words - _GENERIC <= _KINDS[0] and bool(others - words - _GENERIC - _KINDS[0])
    is_only_kind = bool(words - _KINDS[0]) and is_any_date
    return not (words & _WANTED - others or is_only_kind) and names_the_same(name, others)


@dataclass(frozen=True)
class RequiredInput:
    """An input that a tool requires. `tool` is the tool's name, `others` are its other required inputs."""

    name: str
    tool: str = ""
    others: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the name, and the name without the words of the tool's name: `asset_tag` is `tag` too."""
        shorter = words_of(self.name) - words_of(self.tool)
        is_clear = shorter - _GENERIC and shorter != words_of(self.name)
        return (self.name, " ".join(sorted(shorter))) if is_clear else (self.name,)

    @cached_property
    def is_only_id(self) -> bool:
        """Return whether no other required input is a number, a code or a reference."""
        return not any(words_of(other) & ID_WORDS for other in self.others)

    def is_of_another(self, mentioned_words: frozenset[str]) -> bool:
        """Return whether the words mean another input of the same kind: the arrival, and not the
        departure."""
        own_words = words_of(self.name)
        for other in map(words_of, self.others):
            is_same_kind = bool((own_words & other) - _GENERIC) or bool(own_words & other & _KINDS[0])
            if (
                is_same_kind
                and (other - own_words) & mentioned_words
                and not (own_words - other) & mentioned_words
            ):
                return True
        return False


# `moved_on`, `pauseFrom`: a date.
_ENDS_IN_TIME = re.compile(r"(?:_(?:on|from|until|since)|[a-z](?:On|From|Until|Since))$")


# “Ask for the number on the frame”, which names no thing that the number is of.
_UNNAMED_ID = re.compile(
    r"\b(?:the|a|their|its|that)\s(?:[\w-]+[- ](?:digit|letter)\s)?(?:number|reference|ref|code)\b(?! of\b)",
    re.IGNORECASE,
)


def _asks_which(name: str, text: str) -> bool:
    """Return whether the text asks which year, for an input such as `tax_year`."""
    last = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)[-1:]
    head = _stem_of(last[0].lower()) if last else ""
    if not head or head in _GENERIC or any(head in kind for kind in _KINDS[:1]):
        return False
    # Both words: “which year the debt is from” and “which tax year”.
    question_nouns = re.findall(r"\b(?:which|what|whose)\s(\w+)(?:\s(\w+))?", text, re.IGNORECASE)
    return head in {_stem_of(word.lower()) for pair in question_nouns for word in pair}


@lru_cache(maxsize=4_096)
def words_in(text: str) -> frozenset[str]:
    """Return the words of a text, with the words that they imply."""
    words = words_of(text)
    return words.union(*(_IMPLIED.get(word, ()) for word in words))


def mentions(required_input: RequiredInput, text: str) -> bool:
    """Return whether a text has the words of the input, or words for the same kind of thing."""
    name, words, text_words = required_input.name, words_of(required_input.name), words_in(text)
    if _ENDS_IN_TIME.search(name):
        words |= {"date"}
    is_only_kind = words - _GENERIC <= _KINDS[0]
    if is_only_kind and (required_input.is_of_another(text_words) or _is_other_day(words, text_words, text)):
        return False
    if any(names_the_same(name_, text_words) for name_ in required_input.names):
        return True
    if required_input.is_of_another(text_words):
        return False
    if words & _ROLES and text_words & _ROLES:
        return True
    if ID_LIKE.search(name):
        return required_input.is_only_id and bool(_UNNAMED_ID.search(text))
    return _asks_which(name, text) or _speaks_of_kind(words, text_words, text)


def _speaks_of_kind(words: frozenset[str], mentioned_words: frozenset[str], text: str) -> bool:
    if words & _DURATIONS:
        return bool(mentioned_words & (_ENDS | _DURATIONS))
    # “The surname” implies the last name, and no end.
    stated = words_of(text)
    if words & {"start", "begin", "from"} and words & _KINDS[0]:
        return bool(stated & _STARTS or mentioned_words & _KINDS[0])
    if words & {"end", "until", "to"} and words & _KINDS[0]:
        return bool(stated & _ENDS or re.search(r"\b(?:dates|days)\b", text))
    # “Which day” asks for the day of what is arranged, and not for a fact such as a date of birth.
    if words & _FACTS - mentioned_words:
        return False
    kinds = _KINDS[1:] if _is_other_day(words, mentioned_words, text) else _KINDS
    return any(words & kind and mentioned_words & kind for kind in kinds)


def _is_other_day(words: frozenset[str], mentioned_words: frozenset[str], text: str) -> bool:
    """Return whether the text asks for the day of an event that the input is not named after: “Ask when they
    filed it”."""
    # “It was delivered” names the event of a `delivery_date`.
    events = {word[:5] for word in words - _KINDS[0]}
    return bool(_PAST_EVENT.search(text)) and events.isdisjoint(word[:5] for word in mentioned_words)


# Events without a name of their own, such as “it happened”, are those that an input is named after.
_PAST_EVENT = re.compile(
    r"\b(?:(?<!since )when|(?:what|which) (?:date|day|time))\b (?:\w+ ){0,3}?"
    r"(?!happened|occurred|started|noticed|stopped|needed|wanted|planned|preferred)"
    r"(?:\w{2,}ed|saw|bought|sent|paid|left|lost|made|met|won|got)\b",
    re.IGNORECASE,
)


def is_composed(name: str) -> bool:
    words = words_of(name)
    return bool(words & _COMPOSED) and not words & {"id", "number", "code"}
