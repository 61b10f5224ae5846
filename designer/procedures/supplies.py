"""Decide whether a procedure's text supplies what a tool requires, before the tool is called. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from designer.procedures.input_names import (
    ID_LIKE,
    ID_WORDS,
    IDENTITY_WORDS,
    RequiredInput,
    mentions,
    names_the_same,
    words_in,
    words_of,
)


def _one_of_words(*words: str) -> str:
    return rf"(?:{'|'.join(words)})"


# “Take it back” undoes something.
_NOT_BACK = r"(?! (?:it|them|this|that) (?:back|off|out|down|away)\b)"
_STEPS = _one_of_words(
    r"ask(?:ing)?(?! (?:whether|if))", "collect(?:ing)?", "obtain(?:ing)?", "get(?:ting)?",
    "gather(?:ing)?", "request(?:ing)?", "find(?:ing)? out", "verify(?:ing)?", "authenticat(?:e|ing)",
    "identify(?:ing)?", "confirm(?:ing)?", "establish(?:ing)?", "not(?:e|ing)(?: down)?",
    rf"tak(?:e|ing){_NOT_BACK}",
    "record(?:ing)?", r"have (?:them|the \w+|him|her) \w+", r"let (?:them|the \w+)", "choos(?:e|ing)",
    "select(?:ing)?", "pick(?:ing)?", "determin(?:e|ing)", "check(?:ing)?", "work(?:ing)? out",
    "learn(?:ing)?", "agree(?: on)?", "settled?(?: on)?",
    "(?:you|we)(?:.ll)? (?:must |should |will |already )?(?:have|know|need|hold)", "capture", "write down",
    # “Read the dates back” informs, and collects nothing.
    "fetch(?:ing)?", r"read(?:ing)?(?! (?:(?:the |it |them |this |both )?(?:\w+ ){0,2})?(?:out|back|to)\b)",
    "remember", "keep", "use the", "calculat(?:e|ing)", "decid(?:e|ing)",
    "propos(?:e|ing)", "offer(?:ing)?",
)  # fmt: skip
_DONE = _one_of_words(
    "authenticated", "verified", "identified", "known", "provided", "given", "collected", "obtained",
    "chosen", "selected", "confirmed", "established", "recorded", "agreed", "supplied", "captured", "noted",
    "signed in", "logged in", "at hand", "to hand", "on file", "ready",
)  # fmt: skip
_PERSON = _one_of_words(
    "customer", "caller", "user", "member", "patient", "guest", "client", "travell?er", "employee",
    "tenant", "person", "conversation",
)  # fmt: skip
_CUSTOMERS = _one_of_words(
    "gives?", "gave", "provides?", "says?", "said", "tells?", "told", "chooses?", "chose", "picks?",
    "picked", "names?", "named", "selects?", "enters?", "entered", "wants?", "wanted", "mentions?",
    "mentioned", "prefers?", "preferred", "quotes?", "quoted", "describes?", "described", "reads? out",
    "shares?", "shared", "states?", "stated", "likes?", "would like", "asked for", "asks for", "types?",
    "typed", "needs?", "requested", "supplies", "reads? (?:you|us)", rf"from the {_PERSON}",
)  # fmt: skip
_COLLECTS = re.compile(rf"\b{_one_of_words(_STEPS, _DONE, _CUSTOMERS)}\b", re.IGNORECASE)
_ASKS = re.compile(
    rf"\b{_one_of_words('ask(?:ing)?', 'collect', 'request', 'gather', 'once', 'after', 'when', 'note')}\b"
    rf"|\btake\b{_NOT_BACK}"
    rf"|\b{_one_of_words(_DONE, _CUSTOMERS)}\b",
    re.IGNORECASE,
)
_GIVES = re.compile(rf"\b{_one_of_words(_CUSTOMERS, _DONE, 'after asking')}\b", re.IGNORECASE)
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
# An act of the conversation. Being signed in is not: the channel does that.
_DEMANDS_AUTHENTICATION = re.compile(
    r"\bauthenticat\w+|\bidentity (?:check|verification)\b|\bwithout verification\b"
    rf"|\b(?:verif(?:y|ied|ying)|establish(?:ed)?|confirm(?:ed)?|check(?:ed)?)\b[^.;]{{0,25}}"
    r"(?:\bidentity\b|\bwho (?:they|the \w+) (?:is|are)\b)"
    r"|\bidentity\b[^.;]{0,25}\b(?:verified|checked|confirmed|established|proven|proved)\b"
    r"|\b(?:passed|through) (?:our|the|a|your) security (?:check|questions)\b|\b(?:you|we) have verified\b"
    rf"|\bverif(?:y|ied|ying) (?:the |that )?{_PERSON}(?! (?:has|have|wants|is|knows)\b)"
    # “As the customer has been verified”: the text relies on it, and does not tell how.
    rf"|\b(?:as|since|because|once|after|when|now that) (?:the |a )?{_PERSON} (?:has been|have been|was|is) "
    r"(?:verified|identified)\b",
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
# The characters that replace a reference to an output, and to a sub-agent.
RESULT, TRANSFER = "\x1f", "\x1e"
# “If it is a claim, ask for the date and transfer”: the steps below are for the others, who were not asked.
_HANDED_OVER = re.compile(rf"\bif\b.*{TRANSFER}", re.IGNORECASE | re.DOTALL)
_FROM_A_RESULT = re.compile(rf"\b(?:as in|from|in|of|by|is|with|at)\W{{0,3}}{RESULT}|[=:]\W{{0,3}}{RESULT}")
_IN_WHAT_IS_KNOWN = re.compile(r"(?:\b(?:is|are|stays?|stand|as)\b|.s\b).{0,20}\bin the\b", re.IGNORECASE)
# “Tools in this procedure:” with its list, which calls nothing.
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


_ASKS_FOR_IT = re.compile(
    rf"\b(?:ask for|(?!ask){_STEPS}|read|tell you|give you) (?:it|that|them|those|this)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class ProcedureSentence:
    """A sentence of a procedure.

    start: the offset in the text.
    is_listed: it is in the list of required values at the beginning of the procedure.
    lists_tools: below a heading for tools, or next to such a label.
    is_title: in a heading, or in the first line.
    """

    text: str
    start: int
    is_listed: bool
    lists_tools: bool
    is_title: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def sentences(text: str) -> list[ProcedureSentence]:
    result: list[ProcedureSentence] = []
    is_section = is_list = is_tools = False
    offset = 0
    lines = text.split("\n")
    for number, line in enumerate(lines):
        title = line.strip().strip("#*: ")
        next_line = next((row for row in lines[number + 1 :] if row.strip()), "")
        precedes_list = bool(_BULLET.match(next_line)) and len(title) <= MAX_HEADING_LENGTH
        if line.lstrip().startswith(("#", "**")) and len(line) <= MAX_HEADING_LENGTH:
            is_section, is_list = bool(_PREREQUISITES.search(title)), False
            is_tools = bool(_TOOLS.match(title))
        elif not _BULLET.match(line) and (line.rstrip().endswith(":") or (title and precedes_list)):
            # “Ask the customer for:” and its list.
            is_list = bool(_PREREQUISITES.search(title)) or _matches_unrefused(_COLLECTS, title)
            is_tools = bool(_TOOLS.match(title))
        elif title and not _BULLET.match(line):
            is_list = False
        label, colon, _ = title.partition(":")
        lists_tools = is_tools or bool(colon and _TOOLS.match(label.strip(" *")))
        is_title = line.lstrip().startswith("#") or (bool(title) and not text[:offset].strip())
        result += [
            ProcedureSentence(
                match.group(), offset + match.start(), is_section or is_list, lists_tools, is_title
            )
            for match in _SENTENCE.finditer(line)
            if match.group().strip()
        ]
        offset += len(line) + 1
    return result


def end_of_step(text: str, start: int) -> int:
    """Return the end of the step that contains `start`: the end of its line, or of the bullets below it."""
    end = text.find("\n", start)
    while end != -1:
        line = text[end + 1 : text.find("\n", end + 1) if "\n" in text[end + 1 :] else len(text)]
        if not (line.startswith((" ", "\t")) and _BULLET.match(line)):
            return end
        end = text.find("\n", end + 1)
    return len(text)


def is_ruled_out(call: int, sentences: Iterable[ProcedureSentence]) -> bool:
    """Return whether the sentence only lists the reference, or forbids the call: “never use …”."""
    sentence = next((row for row in sentences if row.start <= call <= row.end), None)
    return sentence is not None and (
        sentence.lists_tools or bool(_RULES_OUT.search(sentence.text[: call - sentence.start]))
    )


def is_supplied(
    required_input: RequiredInput, call: int, step_end: int, sentences: Iterable[ProcedureSentence]
) -> bool:
    """Return whether prose supplies the input to the tool whose reference ends at the offset `call`, in a
    step that ends at `step_end`.
    """
    name = required_input.name
    is_authenticated = is_taken_from_there = False
    named_ids: set[str] = set()
    for sentence in sentences:
        if sentence.start > step_end:
            break
        # “The ID that authentication gave” performs no authentication: an earlier step has to.
        names_authentication = bool(_FROM_AUTHENTICATION.search(sentence.text))
        is_of_the_call = sentence.start <= call <= sentence.end
        does_it = (
            bool(_AUTHENTICATES.search(sentence.text))
            or (names_authentication and sentence.is_listed)
            # “Call this, which requires authentication” performs none either.
            or (not is_of_the_call and bool(_IS_AUTHENTICATED_BEFORE.search(sentence.text)))
        )
        is_authenticated = is_authenticated or (does_it and sentence.start <= call)
        if names_authentication or does_it:
            named_ids |= _identities_in(sentence.text)
        if names_authentication and not does_it and names_the_same(name, words_of(sentence.text)):
            is_taken_from_there = True
        elif not is_of_the_call:
            is_for_others = bool(_HANDED_OVER.search(sentence.text))
            if (
                not is_for_others
                and mentions(required_input, sentence.text)
                and _collects_input(required_input, sentence)
            ):
                return True
        elif _is_said_with_the_call(required_input, sentence, call - sentence.start):
            return True
    identity = words_of(name) & IDENTITY_WORDS
    # If the text states which id the authentication yields, it yields no other.
    return is_authenticated and (is_taken_from_there or bool(identity & named_ids if named_ids else identity))


def join_questions(sentences: Iterable[ProcedureSentence]) -> Iterator[ProcedureSentence]:
    """Yield each sentence. “Ask for it” is joined with the sentence before, which names the thing."""
    before: ProcedureSentence | None = None
    for sentence in sentences:
        yield sentence
        if before and _ASKS_FOR_IT.search(sentence.text):
            yield replace(before, text=f"{sentence.text} {before.text}")
        before = sentence


def find_authentication(text: str) -> int | None:
    """Return the offset where a text first relies on an authentication; None if it does not."""
    for sentence in sentences(text):
        if text[text.rfind("\n", 0, sentence.start) + 1 :].lstrip().startswith("#"):
            continue  # a heading does not count
        match = _DEMANDS_AUTHENTICATION.search(sentence.text)
        if match and not _DONE_BY_CHANNEL.search(sentence.text):
            return sentence.start + match.start()
    return None


def proves_identity(capability: str) -> bool:
    """Return whether a tool's name and description state that it identifies a person."""
    return bool(_PROVES_IDENTITY.search(" ".join(re.findall(r"[A-Za-z][a-z]*|[A-Z]+", capability))))


def _identities_in(text: str) -> set[str]:
    """Return words of IDENTITY_WORDS that are part of an id: `{accountID}`, “the member number”."""
    return {
        match[1].lower()
        for match in re.finditer(
            rf"(?<![a-z])({'|'.join(sorted(IDENTITY_WORDS))})[ _-]?(?:ids?|numbers?|no|identifier)(?![a-z])",
            text,
            re.IGNORECASE,
        )
    }


def _collects_input(required_input: RequiredInput, sentence: ProcedureSentence) -> bool:
    name, text = required_input.name, sentence.text
    if ID_LIKE.search(name) and not sentence.is_listed:
        # “Ask whether they have a licence” does not collect its number.
        text = re.split(r"\b(?:whether|if)\b", text)[0]
        if not mentions(required_input, text):
            return False
    return (
        sentence.is_listed
        or bool(_LABEL.match(text))
        # “Number plate.”: a step in note form.
        or (len(text.split()) <= MAX_NOTE_WORDS and not sentence.is_title)
        or text.rstrip(' _*"”').endswith("?")
        or "please" in text.lower()
        or _matches_unrefused(_COLLECTS, text)
        or bool(_IN_WHAT_IS_KNOWN.search(text) or _FROM_A_RESULT.search(text))
        or _has_value(name, text)
    )


def _is_said_with_the_call(required_input: RequiredInput, sentence: ProcedureSentence, call: int) -> bool:
    name = required_input.name
    before, after = sentence.text[:call], sentence.text[call:]
    if _BY_THE_CALL.search(before):
        before = "".join(_CLAUSE.findall(before)[:-1])
    if mentions(required_input, before) and ("?" in before or _matches_unrefused(_ASKS, before)):
        return True
    # “for that branch”: it was mentioned before.
    for match in re.finditer(r"\b(?:that|those|these|this|same)\b((?:\W+\w+){1,3})", after, re.IGNORECASE):
        if mentions(required_input, match.group(1)):
            return True
    # “Get the postcode, then call”; not “To get the orders of the account, call”.
    for match in re.finditer(rf"(?<!to )\b{_STEPS}\b(.*)", before, re.IGNORECASE):
        if _lists_input(required_input, match.group(1)):
            return True
    # “Postcode and surname, then call”.
    if _THEN_THE_CALL.search(before) and _lists_input(required_input, before):
        return True
    # “with the size that the customer chose”; not “with the account ID”, which does not state its origin.
    is_given = any(pattern.search(after) for pattern in (_GIVES, _FROM_A_RESULT, _IN_WHAT_IS_KNOWN))
    return mentions(required_input, after) and (is_given or _has_value(name, after))


# “Take the money with charge()” tells what the call does, and collects nothing for it.
_BY_THE_CALL = re.compile(r"\b(?:with|by|using|via|through)[\s`*_]*$", re.IGNORECASE)
_CLAUSE = re.compile(r".+?(?:[,;:?]|\band\b|\bthen\b|$)", re.IGNORECASE | re.DOTALL)
_THEN_THE_CALL = re.compile(r"(?:\bthen\b|->|→|=>)[\s`*]*(?:use|run|call|try)?[\s`*_]*$", re.IGNORECASE)
_END_OF_ITEM = re.compile(
    r"\b(?:of(?! birth)|from|on|at|that|which|who|in|for|with|so|then)\b", re.IGNORECASE
)


def _lists_input(required_input: RequiredInput, text: str) -> bool:
    """Return whether the input is one of the things that the text lists: “the last name and the birthday”."""
    items = re.split(r",|\+|&|\band\b", text)
    heads = [words_in(_END_OF_ITEM.split(item)[0]) for item in items]
    # “Ref and postcode first”, where no other reference is required.
    is_unnamed_id = bool(ID_LIKE.search(required_input.name)) and required_input.is_only_id
    return any(
        names_the_same(name, head) or (is_unnamed_id and bool(head) and head <= ID_WORDS)
        for head in heads
        for name in required_input.names
    )


def _matches_unrefused(pattern: re.Pattern[str], text: str) -> bool:
    return any(not _REFUSES.search(text[: match.start()]) for match in pattern.finditer(text))


def _has_value(name: str, text: str) -> bool:
    # “with a quantity of 30”, “channel to "sms"”: the value follows shortly after the last word of the name.
    ends = [
        match.end() for match in re.finditer(r"[^\W\d_]+", text) if words_of(match.group()) & words_of(name)
    ]
    return any(_LITERAL.search(text[end : end + 30]) for end in ends)
