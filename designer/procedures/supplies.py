"""Whether the words of a procedure supply what a tool requires, before the tool is called. Pure.

A required input is supplied by what the conversation has collected, by an earlier result, or by a value that
the text gives. People write that in prose, so this reads sentences: which one collects something ("ask the
customer for the order number"), and which only says where a thing is taken from ("the account ID, which comes
from the authentication"), which helps only where a step before does that.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

# Words that an input's name may end in and a sentence may leave out: "choose a prescription" gives its id.
_GENERIC = frozenset((
    "id", "identifier", "uuid", "guid", "number", "no", "nr", "code", "key", "ref", "reference", "name",
    "value", "str", "text", "input", "param", "the", "of", "for", "to", "a", "an", "is", "new", "old",
    "current", "target", "desired", "requested", "preferred", "chosen", "selected", "pickup", "dropoff",
    "delivery", "billing", "home",
))  # fmt: skip
# What a model writes by itself, out of the conversation.
_COMPOSED = frozenset((
    "message", "body", "content", "query", "question", "prompt", "summary", "subject", "note", "comment",
    "description", "title", "q", "search", "keyword", "term", "request", "instruction", "explanation",
    "text", "reason",
))  # fmt: skip
# What knowing who a person is gives.
_IDENTITY = frozenset((
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
# What is a fact already, so that only a question with this word asks for it.
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
_ID_LIKE = re.compile(r"(?:id|number|no|code|key|ref|reference|uuid)s?$", re.IGNORECASE)
_ID_WORDS = frozenset(("id", "number", "no", "code", "key", "ref", "reference", "uuid"))
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
# Words that stand for a word of an input: a question for the number plate asks for the registration.
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
    "heavy": ("weight",),
    "long": ("duration", "length"), "family": ("surname",), "last": ("surname",), "surname": ("last",),
}  # fmt: skip
# An input with such a word asks for what is wanted, and a result says what is there.
_WANTED = frozenset(("new", "desired", "requested", "preferred", "target"))


def _any(*words: str) -> str:
    return rf"(?:{'|'.join(words)})"


_STEPS = _any(
    r"ask(?:ing)?(?! (?:whether|if))", "collect(?:ing)?", "obtain(?:ing)?", "get(?:ting)?",
    "gather(?:ing)?", "request(?:ing)?", "find(?:ing)? out", "verify(?:ing)?", "authenticat(?:e|ing)",
    "identify(?:ing)?", "confirm(?:ing)?", "establish(?:ing)?", "not(?:e|ing)(?: down)?", "tak(?:e|ing)",
    "record(?:ing)?", r"have (?:them|the \w+|him|her) \w+", r"let (?:them|the \w+)", "choos(?:e|ing)",
    "select(?:ing)?", "pick(?:ing)?", "determin(?:e|ing)", "check(?:ing)?", "work(?:ing)? out",
    "learn(?:ing)?", "agree(?: on)?", "settled?(?: on)?",
    "(?:you|we)(?:.ll)? (?:must |should |will |already )?(?:have|know|need|hold)", "capture", "write down",
    # “Read the dates back” tells, and collects nothing.
    "fetch(?:ing)?", r"read(?:ing)?(?! (?:(?:the |it |them |this |both )?(?:\w+ ){0,2})?(?:out|back|to)\b)",
    "remember", "keep", "use the", "calculat(?:e|ing)", "decid(?:e|ing)",
    "propos(?:e|ing)", "offer(?:ing)?",
)  # fmt: skip
_DONE = _any(
    "authenticated", "verified", "identified", "known", "provided", "given", "collected", "obtained",
    "chosen", "selected", "confirmed", "established", "recorded", "agreed", "supplied", "captured", "noted",
    "signed in", "logged in", "at hand", "to hand", "on file", "ready",
)  # fmt: skip
_PERSON = _any(
    "customer", "caller", "user", "member", "patient", "guest", "client", "travell?er", "employee",
    "tenant", "person", "conversation",
)  # fmt: skip
_CUSTOMERS = _any(
    "gives?", "gave", "provides?", "says?", "said", "tells?", "told", "chooses?", "chose", "picks?",
    "picked", "names?", "named", "selects?", "enters?", "entered", "wants?", "wanted", "mentions?",
    "mentioned", "prefers?", "preferred", "quotes?", "quoted", "describes?", "described", "reads? out",
    "shares?", "shared", "states?", "stated", "likes?", "would like", "asked for", "asks for", "types?",
    "typed", "needs?", "requested", "supplies", "reads? (?:you|us)", rf"from the {_PERSON}",
)  # fmt: skip
_COLLECTS = re.compile(rf"\b{_any(_STEPS, _DONE, _CUSTOMERS)}\b", re.IGNORECASE)
_ASKS = re.compile(
    rf"\b{_any('ask(?:ing)?', 'collect', 'request', 'gather', 'once', 'after', 'when', 'note', 'take')}\b"
    rf"|\b{_any(_DONE, _CUSTOMERS)}\b",
    re.IGNORECASE,
)
_GIVES = re.compile(rf"\b{_any(_CUSTOMERS, _DONE, 'after asking')}\b", re.IGNORECASE)
_REFUSES = re.compile(
    r"\b(?:do not|don.t|never|without|cannot|can.t|no need to)\s+(?:\w+\s+){0,2}$", re.IGNORECASE
)
_RULES_OUT = re.compile(r"\b(?:never|do not|don.t|must not|mustn.t|avoid|instead of|not|no)\b", re.IGNORECASE)
_AUTHENTICATION = r"\b(?:authentication|verification|sign-?in|log-?in|identification|identity check)\b"
_FROM_AUTHENTICATION = re.compile(_AUTHENTICATION, re.IGNORECASE)
_AUTHENTICATES = re.compile(
    r"\bauthenticat(?:e|ed|ing)\b|\b(?:signed|logged) in\b|\b(?:verif(?:y|ied|ying)|identif(?:y|ied|ying)|"
    r"confirm(?:ed|ing)?|check(?:ed)?|establish(?:ed)?)\b.{0,40}"
    rf"\b(?:identity|who (?:they|the)|{_PERSON})\b",
    re.IGNORECASE,
)
_IS_AUTHENTICATED_BEFORE = re.compile(
    # “requires authentication”, and not “requires the account ID from authentication”.
    r"\b(?:requir|need|complet|pass|finish|perform)(?:e|ed|es|s|ing)?\b"
    r"(?:(?!\b(?:from|by|of|in|during)\b).){0,30}"
    rf"{_AUTHENTICATION}"
    rf"|{_AUTHENTICATION}(?:\s\w+)?\s(?:is|was|has been|must be)"
    r"\s(?:required|needed|done|completed?|performed)\b"
    # “Authentication gives the account ID”, and not “the account ID that authentication gives”.
    rf"|^\W*(?:\d+\W+)?(?:(?:the|a|prior|user|customer)\s)*{_AUTHENTICATION}(?:\s\w+)?"
    r"\s(?:gives?|provides?|yields?|returns?|supplies|produces?)\b",
    re.IGNORECASE,
)
# An act of the conversation. Being signed in is not: the channel has seen to that.
_DEMANDS_AUTHENTICATION = re.compile(
    r"\bauthenticat\w+|\bidentity (?:check|verification)\b|\bwithout verification\b"
    rf"|\b(?:verif(?:y|ied|ying)|establish(?:ed)?|confirm(?:ed)?|check(?:ed)?)\b[^.;]{{0,25}}"
    r"(?:\bidentity\b|\bwho (?:they|the \w+) (?:is|are)\b)"
    r"|\bidentity\b[^.;]{0,25}\b(?:verified|checked|confirmed|established|proven|proved)\b"
    r"|\b(?:passed|through) (?:our|the|a|your) security (?:check|questions)\b|\b(?:you|we) have verified\b"
    rf"|\bverif(?:y|ied|ying) (?:the |that )?{_PERSON}(?! (?:has|have|wants|is|knows)\b)",
    re.IGNORECASE,
)
_DONE_BY_CHANNEL = re.compile(
    r"\b(?:SSO|IVR|app|website|portal|(?:phone|voice) system|voice menu|bot|single sign-?on)\b"
    r"|\b(?:signed|logged) in\b"
    r"|(?<!you have )(?<!we have )\b(?:authenticat|verif|identif|establish)\w*\b[^.;]{0,30}"
    r"\b(?:already|by now|beforehand|earlier|before they)\b"
    r"|\balready\b[^.;]{0,20}\b(?:authenticat|verif|identif|establish)\w*\b",
    re.IGNORECASE,
)
_PROVES_IDENTITY = re.compile(
    r"\b(?:authenticat\w*|verif(?:y|ies|ication) (?:\w+ ){0,3}(?:caller|customer|member|user|person|patient|"
    r"guest|code|pin|password|who)|checks? (?:\w+ ){0,4}(?:pin|passcode|password|security code)|"
    r"identity|(?:sign|log)s? in|log ?in|passcode|otp|"
    r"one time (?:code|password)|who (?:the caller|they) (?:is|are))\b",
    re.IGNORECASE,
)
_PREREQUISITES = re.compile(
    r"^(?:needed|needs)\b|"
    r"\b(?:before (?:you|we) (?:start|begin)|prerequisites?|what (?:you|we) need|you (?:will )?need|"
    r"needed first|required (?:first|information|details|data|inputs)|requirements|authentication|"
    r"have ready|to hand|inputs|to collect|collect(?:ed)?|(?:must|should) know|before the call)\b",
    re.IGNORECASE,
)
# What a reference to an output reads as here.
RESULT = "\x1f"
_FROM_A_RESULT = re.compile(rf"\b(?:as in|from|in|of|by|is|with|at)\W{{0,3}}{RESULT}|[=:]\W{{0,3}}{RESULT}")
_IN_WHAT_IS_KNOWN = re.compile(r"(?:\b(?:is|are|stays?|stand|as)\b|.s\b).{0,20}\bin the\b", re.IGNORECASE)
# “Tools in this procedure:” and its list, which calls nothing.
_TOOLS = re.compile(
    r"^(?:(?:the|your|available|allowed|needed|required|which)\s)*(?:tools?|functions?)"
    r"(?:\s(?:in|of|for|used|to use|you (?:can|may|will|must) use|needed|available|this)\b[^.:]*)?$",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:[-*+•.·]|\d{1,3}[.)]|[a-z][.)])\s")
_SENTENCE = re.compile(r"[^\n.!?;]+(?:[.!?;](?!\s|$)[^\n.!?;]*)*[.!?;]?")
_LITERAL = re.compile(
    r"[\"“'`]([^\"”'`\n]{1,80})[\"”'`]|\b\d[\d.,:]*\b|\b(?:true|false|today|now|tomorrow)\b"
)
_LABEL = re.compile(
    r"\W*(?:before|collect(?: first)?|need(?:ed|s)?|have|prerequisites?|(?:you|we) need|required|first)"
    r"\W*[:-]",
    re.IGNORECASE,
)
MAX_HEADING_LENGTH = 90
MAX_NOTE_WORDS = 6


@lru_cache(maxsize=4_096)
def words_of(name: str) -> frozenset[str]:
    """Its words in lower case and singular: `accountIDs` gives account and id."""
    parts = re.sub(r"([a-z\d])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", name)
    return frozenset(_stem(word) for word in re.findall(r"[^\W\d_]+", parts.lower()))


def _stem(word: str) -> str:
    word = _SAME.get(word, word)
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return _SAME.get(word, word)


def names_the_same(name: str, others: frozenset[str]) -> bool:
    """Whether words say what `name` says, but for words such as “id” that speech leaves out."""
    words = words_of(name)
    meant = words - _GENERIC
    return meant <= others if meant else bool(words) and words <= others


def is_told_by(name: str, output: str) -> bool:
    """Whether a result of this name gives the input called `name`. What is wanted anew, no result says."""
    others = words_of(output)
    return not words_of(name) & _WANTED - others and names_the_same(name, others)


@dataclass(frozen=True)
class RequiredInput:
    """An input that a tool requires. `tool` is the tool's name, `others` are its other required inputs."""

    name: str
    tool: str = ""
    others: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Its name, and its name without what the tool's own name says: the tag, of `look_up_asset`."""
        shorter = words_of(self.name) - words_of(self.tool)
        is_clear = shorter - _GENERIC and shorter != words_of(self.name)
        return (self.name, " ".join(sorted(shorter))) if is_clear else (self.name,)

    @cached_property
    def is_only_id(self) -> bool:
        """Whether no other required input is a number, a code or a reference."""
        return not any(words_of(other) & _ID_WORDS for other in self.others)

    def is_meant_for_another(self, said: frozenset[str]) -> bool:
        """Whether the words speak of another input of the same kind: the arrival, and not the departure."""
        own = words_of(self.name)
        for other in map(words_of, self.others):
            is_same_kind = bool((own & other) - _GENERIC) or bool(own & other & _KINDS[0])
            if is_same_kind and (other - own) & said and not (own - other) & said:
                return True
        return False


# “Ask for the number on the frame”, which names no thing that the number is of.
_UNNAMED_ID = re.compile(
    r"\b(?:the|a|their|its|that)\s(?:[\w-]+[- ](?:digit|letter)\s)?(?:number|reference|ref|code)\b(?! of\b)",
    re.IGNORECASE,
)


_ASKS_FOR_IT = re.compile(
    rf"\b(?:ask for|{_STEPS}|read|tell you|give you) (?:it|that|them|those|this)\b", re.IGNORECASE
)


def _asks_which(name: str, text: str) -> bool:
    """Whether the text asks which year, for an input such as `tax_year`."""
    last = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)[-1:]
    head = _stem(last[0].lower()) if last else ""
    if not head or head in _GENERIC or any(head in kind for kind in _KINDS[:1]):
        return False
    asked = re.findall(r"\b(?:which|what|whose)\s(?:\w+\s)?(\w+)", text, re.IGNORECASE)
    return head in {_stem(word.lower()) for word in asked}


@lru_cache(maxsize=4_096)
def _said_in(text: str) -> frozenset[str]:
    words = words_of(text)
    return words.union(*(_IMPLIED.get(word, ()) for word in words))


def _speaks_of(wanted: RequiredInput, text: str) -> bool:
    # Whether a sentence has the words of the input, or words for the same kind of thing.
    name, words, said = wanted.name, words_of(wanted.name), _said_in(text)
    if words - _GENERIC <= _KINDS[0] and wanted.is_meant_for_another(said):
        return False
    if any(names_the_same(each, said) for each in wanted.names):
        return True
    if wanted.is_meant_for_another(said):
        return False
    if words & _ROLES and said & _ROLES:
        return True
    if _ID_LIKE.search(name):
        return wanted.is_only_id and bool(_UNNAMED_ID.search(text))
    return _asks_which(name, text) or _speaks_of_kind(words, said, text)


def _speaks_of_kind(words: frozenset[str], said: frozenset[str], text: str) -> bool:
    if words & _DURATIONS:
        return bool(said & (_ENDS | _DURATIONS))
    if words & {"start", "begin", "from"} and words & _KINDS[0]:
        return bool(said & _STARTS or said & _KINDS[0])
    if words & {"end", "until", "to"} and words & _KINDS[0]:
        return bool(said & _ENDS or re.search(r"\b(?:dates|days)\b", text))
    # “Which day” asks for the day of what is arranged, and not for a fact such as a date of birth.
    if words & _FACTS - said:
        return False
    return any(words & kind and said & kind for kind in _KINDS)


def is_composed(name: str) -> bool:
    words = words_of(name)
    return bool(words & _COMPOSED) and not words & {"id", "number", "code"}


@dataclass(frozen=True)
class Sentence:
    """`start` is where it stands in the text; `is_listed` below a heading that lists what is needed first,
    and `lists_tools` below one of the tools themselves, or beside such a label. `is_title`: it stands in a
    heading, or in the first line.
    """

    text: str
    start: int
    is_listed: bool
    lists_tools: bool
    is_title: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def sentences(text: str) -> list[Sentence]:
    found: list[Sentence] = []
    is_section = is_list = is_tools = False
    offset = 0
    lines = text.split("\n")
    for number, line in enumerate(lines):
        title = line.strip().strip("#*: ")
        follows = next((each for each in lines[number + 1 :] if each.strip()), "")
        leads_a_list = bool(_BULLET.match(follows)) and len(title) <= MAX_HEADING_LENGTH
        if line.lstrip().startswith(("#", "**")) and len(line) <= MAX_HEADING_LENGTH:
            is_section, is_list = bool(_PREREQUISITES.search(title)), False
            is_tools = bool(_TOOLS.match(title))
        elif not _BULLET.match(line) and (line.rstrip().endswith(":") or (title and leads_a_list)):
            # “Ask the customer for:” and its list.
            is_list = bool(_PREREQUISITES.search(title)) or _says(_COLLECTS, title)
            is_tools = bool(_TOOLS.match(title))
        elif title and not _BULLET.match(line):
            is_list = False
        label, colon, _ = title.partition(":")
        lists_tools = is_tools or bool(colon and _TOOLS.match(label.strip(" *")))
        is_title = line.lstrip().startswith("#") or (bool(title) and not text[:offset].strip())
        found += [
            Sentence(match.group(), offset + match.start(), is_section or is_list, lists_tools, is_title)
            for match in _SENTENCE.finditer(line)
            if match.group().strip()
        ]
        offset += len(line) + 1
    return found


def end_of_step(text: str, start: int) -> int:
    """Where the step ends that `start` stands in: with its line, or with the bullets below it."""
    end = text.find("\n", start)
    while end != -1:
        line = text[end + 1 : text.find("\n", end + 1) if "\n" in text[end + 1 :] else len(text)]
        if not (line.startswith((" ", "\t")) and _BULLET.match(line)):
            return end
        end = text.find("\n", end + 1)
    return len(text)


def is_ruled_out(call: int, said: Iterable[Sentence]) -> bool:
    """Whether the sentence only lists what is referred to there, or says not to call it: “never use …”."""
    own = next((each for each in said if each.start <= call <= each.end), None)
    return own is not None and (own.lists_tools or bool(_RULES_OUT.search(own.text[: call - own.start])))


def is_supplied(wanted: RequiredInput, call: int, step_end: int, said: Iterable[Sentence]) -> bool:
    """Whether prose gives the input to the tool whose reference ends at the offset `call`, in a step that
    ends at `step_end`."""
    name = wanted.name
    is_authenticated = is_taken_from_there = False
    named_ids: set[str] = set()
    for sentence in said:
        if sentence.start > step_end:
            break
        # “The ID that authentication gave” is no authentication: a step before has to do it.
        names_authentication = bool(_FROM_AUTHENTICATION.search(sentence.text))
        is_of_the_call = sentence.start <= call <= sentence.end
        does_it = (
            bool(_AUTHENTICATES.search(sentence.text))
            or (names_authentication and sentence.is_listed)
            # “Call this, which requires authentication” is no authentication either.
            or (not is_of_the_call and bool(_IS_AUTHENTICATED_BEFORE.search(sentence.text)))
        )
        is_authenticated = is_authenticated or (does_it and sentence.start <= call)
        if names_authentication or does_it:
            named_ids |= _identities_in(sentence.text)
        if names_authentication and not does_it and names_the_same(name, words_of(sentence.text)):
            is_taken_from_there = True
        elif not is_of_the_call:
            if _speaks_of(wanted, sentence.text) and _collects(wanted, sentence):
                return True
        elif _is_said_with_the_call(wanted, sentence, call - sentence.start):
            return True
    identity = words_of(name) & _IDENTITY
    # Where the text states which id the authentication gives, it gives no other.
    return is_authenticated and (is_taken_from_there or bool(identity & named_ids if named_ids else identity))


def with_what_is_asked_for(said: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield each sentence; “Ask for it” after the one that says what it is, as one sentence."""
    before: Sentence | None = None
    for sentence in said:
        yield sentence
        if before and _ASKS_FOR_IT.search(sentence.text):
            yield replace(before, text=f"{sentence.text} {before.text}")
        before = sentence


def find_authentication(text: str) -> int | None:
    """Return where a text first relies on an authentication, as an offset; None where it does not."""
    for sentence in sentences(text):
        if text[text.rfind("\n", 0, sentence.start) + 1 :].lstrip().startswith("#"):
            continue  # a heading relies on nothing
        match = _DEMANDS_AUTHENTICATION.search(sentence.text)
        if match and not _DONE_BY_CHANNEL.search(sentence.text):
            return sentence.start + match.start()
    return None


def proves_identity(capability: str) -> bool:
    """Whether the name and description of a tool say that it finds out who a person is."""
    return bool(_PROVES_IDENTITY.search(" ".join(re.findall(r"[A-Za-z][a-z]*|[A-Z]+", capability))))


def _identities_in(text: str) -> set[str]:
    """Words of _IDENTITY that are part of an id: `{accountID}`, “the member number”."""
    return {
        match[1].lower()
        for match in re.finditer(
            rf"(?<![a-z])({'|'.join(sorted(_IDENTITY))})[ _-]?(?:ids?|numbers?|no|identifier)(?![a-z])",
            text,
            re.IGNORECASE,
        )
    }


def _collects(wanted: RequiredInput, sentence: Sentence) -> bool:
    name, text = wanted.name, sentence.text
    if _ID_LIKE.search(name) and not sentence.is_listed:
        # “Ask whether they have a licence” does not give its number.
        text = re.split(r"\b(?:whether|if)\b", text)[0]
        if not _speaks_of(wanted, text):
            return False
    return (
        sentence.is_listed
        or bool(_LABEL.match(text))
        # “Number plate.”: a step in note form.
        or (len(text.split()) <= MAX_NOTE_WORDS and not sentence.is_title)
        or text.rstrip(' _*"”').endswith("?")
        or "please" in text.lower()
        or _says(_COLLECTS, text)
        or bool(_IN_WHAT_IS_KNOWN.search(text) or _FROM_A_RESULT.search(text))
        or _has_value(name, text)
    )


def _is_said_with_the_call(wanted: RequiredInput, sentence: Sentence, call: int) -> bool:
    name = wanted.name
    before, after = sentence.text[:call], sentence.text[call:]
    if _speaks_of(wanted, before) and ("?" in before or _says(_ASKS, before)):
        return True
    # “for that branch”: it has been spoken of.
    for match in re.finditer(r"\b(?:that|those|these|this|same)\b((?:\W+\w+){1,3})", after, re.IGNORECASE):
        if _speaks_of(wanted, match.group(1)):
            return True
    # “Get the postcode, then call”; not “To get the orders of the account, call”.
    for match in re.finditer(rf"(?<!to )\b{_STEPS}\b(.*)", before, re.IGNORECASE):
        if _lists(wanted, match.group(1)):
            return True
    # “Postcode and surname, then call”.
    if _THEN_THE_CALL.search(before) and _lists(wanted, before):
        return True
    # “with the size that the customer chose”; not “with the account ID”, which says nothing of its origin.
    is_given = any(each.search(after) for each in (_GIVES, _FROM_A_RESULT, _IN_WHAT_IS_KNOWN))
    return _speaks_of(wanted, after) and (is_given or _has_value(name, after))


_THEN_THE_CALL = re.compile(r"(?:\bthen\b|->|→|=>)[\s`*]*(?:use|run|call|try)?[\s`*_]*$", re.IGNORECASE)
_END_OF_ITEM = re.compile(
    r"\b(?:of(?! birth)|from|on|at|that|which|who|in|for|with|so|then)\b", re.IGNORECASE
)


def _lists(wanted: RequiredInput, text: str) -> bool:
    """Whether one of the things that the text lists is the input: “the last name and the birthday”."""
    items = re.split(r",|\+|&|\band\b", text)
    heads = (_said_in(_END_OF_ITEM.split(item)[0]) for item in items)
    return any(names_the_same(name, head) for head in heads for name in wanted.names)


def _says(pattern: re.Pattern[str], text: str) -> bool:
    return any(not _REFUSES.search(text[: match.start()]) for match in pattern.finditer(text))


def _has_value(name: str, text: str) -> bool:
    # “with a quantity of 30”, “channel to "sms"”: the value stands soon after the last word of the name.
    ends = [
        match.end() for match in re.finditer(r"[^\W\d_]+", text) if words_of(match.group()) & words_of(name)
    ]
    return any(_LITERAL.search(text[end : end + 30]) for end in ends)
