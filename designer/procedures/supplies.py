"""Whether the words of a procedure supply what a tool requires, before the tool is called. Pure.

A required input is supplied by what the conversation has collected, by an earlier result, or by a value that
the text gives. People write that in prose, so this reads sentences: which one collects something ("ask the
customer for the order number"), and which only says where a thing is taken from ("the account ID, which comes
from the authentication"), which helps only where a step before does that.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

# Words that an input's name may end in and a sentence may leave out: "choose a prescription" gives its id.
_GENERIC = frozenset((
    "id", "identifier", "uuid", "guid", "number", "no", "nr", "code", "key", "ref", "reference", "name",
    "value", "str", "text", "input", "param", "the", "of", "for", "to", "a", "an", "is",
))  # fmt: skip
# What a model writes by itself, out of the conversation.
_COMPOSED = frozenset((
    "message", "body", "content", "query", "question", "prompt", "summary", "subject", "note", "comment",
    "description", "title", "q", "search", "keyword", "term", "request", "instruction", "explanation",
    "text", "reason",
))  # fmt: skip
# What knowing who a person is gives.
_IDENTITY = frozenset(("account", "customer", "member", "user", "patient", "client", "caller", "subscriber"))
_SAME = {
    "acct": "account", "addr": "address", "amt": "amount", "qty": "quantity", "tel": "phone",
    "telephone": "phone", "mobile": "phone", "mail": "email", "zip": "postcode", "postal": "postcode",
    "dob": "birth", "birthday": "birth", "birthdate": "birth", "num": "number", "identifier": "id",
    "rx": "prescription", "appt": "appointment", "msg": "message", "org": "organization",
    "organisation": "organization", "colour": "color", "cheque": "check", "emp": "employee",
    "cust": "customer", "loc": "location", "dest": "destination", "dept": "department",
}  # fmt: skip


def _any(*words: str) -> str:
    return rf"(?:{'|'.join(words)})"


_STEPS = _any(
    r"ask(?:ing)?(?! (?:whether|if))", "collect(?:ing)?", "obtain(?:ing)?", "get(?:ting)?",
    "gather(?:ing)?", "request(?:ing)?", "find(?:ing)? out", "verify(?:ing)?", "authenticat(?:e|ing)",
    "identify(?:ing)?", "confirm(?:ing)?", "establish(?:ing)?", "not(?:e|ing)(?: down)?", "tak(?:e|ing)",
    "record(?:ing)?", r"have (?:them|the \w+|him|her) \w+", r"let (?:them|the \w+)", "choos(?:e|ing)",
    "select(?:ing)?", "pick(?:ing)?", "determin(?:e|ing)", "check(?:ing)?", "work(?:ing)? out",
    "learn(?:ing)?", "agree(?: on)?", "settle(?: on)?",
    "(?:you|we) (?:must |should |will |already )?(?:have|know|need|hold)", "capture", "write down",
    "fetch(?:ing)?", "read(?:ing)?", "remember", "keep", "use the", "calculat(?:e|ing)", "decid(?:e|ing)",
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
    "typed", "needs?", "requested", "supplies", rf"from the {_PERSON}",
)  # fmt: skip
_COLLECTS = re.compile(rf"\b{_any(_STEPS, _DONE, _CUSTOMERS)}\b", re.IGNORECASE)
_ASKS = re.compile(
    rf"\b{_any('ask(?:ing)?', 'collect', 'request', 'gather', 'once', 'after', 'when', 'note', 'take')}\b"
    rf"|\b{_any(_DONE, _CUSTOMERS)}\b",
    re.IGNORECASE,
)
_GIVES = re.compile(rf"\b{_CUSTOMERS}\b", re.IGNORECASE)
_REFUSES = re.compile(
    r"\b(?:do not|don.t|never|without|cannot|can.t|no need to)\s+(?:\w+\s+){0,2}$", re.IGNORECASE
)
_FROM_AUTHENTICATION = re.compile(
    r"\b(?:authentication|verification|sign-?in|log-?in|identification|identity check)\b", re.IGNORECASE
)
_AUTHENTICATES = re.compile(
    r"\bauthenticat(?:e|ed|ing)\b|\b(?:signed|logged) in\b|\b(?:verif(?:y|ied|ying)|identif(?:y|ied|ying)|"
    r"confirm(?:ed|ing)?|check(?:ed)?|establish(?:ed)?)\b.{0,40}"
    rf"\b(?:identity|who (?:they|the)|{_PERSON})\b",
    re.IGNORECASE,
)
_PREREQUISITES = re.compile(
    r"\b(?:before (?:you|we) (?:start|begin)|prerequisites?|what (?:you|we) need|you (?:will )?need|"
    r"needed first|required (?:first|information|details|data|inputs)|requirements|authentication|"
    r"have ready|to hand|inputs|to collect|collected|before the call)\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)]|[a-z][.)])\s")
_SENTENCE = re.compile(r"[^\n.!?;]+(?:[.!?;](?!\s|$)[^\n.!?;]*)*[.!?;]?")
_LITERAL = re.compile(
    r"[\"“'`]([^\"”'`\n]{1,80})[\"”'`]|\b\d[\d.,:]*\b|\b(?:true|false|today|now|tomorrow)\b"
)
MAX_HEADING_LENGTH = 90


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


def is_composed(name: str) -> bool:
    words = words_of(name)
    return bool(words & _COMPOSED) and not words & {"id", "number", "code"}


@dataclass(frozen=True)
class Sentence:
    """`start` is where it stands in the text; `is_listed` below a heading that lists what is needed first."""

    text: str
    start: int
    is_listed: bool

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def sentences(text: str) -> list[Sentence]:
    found: list[Sentence] = []
    is_section = is_list = False
    offset = 0
    for line in text.split("\n"):
        title = line.strip().strip("#*: ")
        if line.lstrip().startswith(("#", "**")) and len(line) <= MAX_HEADING_LENGTH:
            is_section, is_list = bool(_PREREQUISITES.search(title)), False
        elif line.rstrip().endswith(":"):
            # “Ask the customer for:” and its list.
            is_list = bool(_PREREQUISITES.search(title)) or _says(_COLLECTS, title)
        elif line.strip() and not _BULLET.match(line):
            is_list = False
        found += [
            Sentence(match.group(), offset + match.start(), is_section or is_list)
            for match in _SENTENCE.finditer(line)
            if match.group().strip()
        ]
        offset += len(line) + 1
    return found


def is_supplied(name: str, call: int, said: Iterable[Sentence]) -> bool:
    """Whether prose gives the input called `name` to the tool whose reference ends at the offset `call`."""
    is_authenticated = is_taken_from_there = False
    for sentence in said:
        if sentence.start > call:
            break
        # “The ID that authentication gave” is no authentication: a step before has to do it.
        names_authentication = bool(_FROM_AUTHENTICATION.search(sentence.text))
        does_it = bool(_AUTHENTICATES.search(sentence.text)) or (names_authentication and sentence.is_listed)
        is_authenticated = is_authenticated or does_it
        if not names_the_same(name, words_of(sentence.text)):
            continue
        if names_authentication and not does_it:
            is_taken_from_there = True
        elif call <= sentence.end:
            if _is_said_with_the_call(name, sentence, call - sentence.start):
                return True
        elif sentence.is_listed or _says(_COLLECTS, sentence.text) or _has_value(name, sentence.text):
            return True
    return is_authenticated and (is_taken_from_there or bool(words_of(name) & _IDENTITY))


def _is_said_with_the_call(name: str, sentence: Sentence, call: int) -> bool:
    before, after = sentence.text[:call], sentence.text[call:]
    if names_the_same(name, words_of(before)) and _says(_ASKS, before):
        return True
    # “with the size that the customer chose”; not “with the account ID”, which says nothing of its origin.
    is_after = names_the_same(name, words_of(after))
    return is_after and bool(_GIVES.search(after) or _has_value(name, after))


def _says(pattern: re.Pattern[str], text: str) -> bool:
    return any(not _REFUSES.search(text[: match.start()]) for match in pattern.finditer(text))


def _has_value(name: str, text: str) -> bool:
    # “with a quantity of 30”, “channel to "sms"”: the value stands soon after the last word of the name.
    ends = [
        match.end() for match in re.finditer(r"[^\W\d_]+", text) if words_of(match.group()) & words_of(name)
    ]
    return any(_LITERAL.search(text[end : end + 30]) for end in ends)
