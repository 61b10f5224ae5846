"""Derive the purpose of a tool from its texts: its verb, the object of the verb, and other words that
describe it. Pure.

Tool names combine verbs and nouns in many orders (`issues_list_for_repo`, `DeleteCustomerCard`), and most
descriptions begin with a verb and its object. Both are parsed, because either may be missing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile

from catalog.rules.tool_names import ACTION_OF, find_verb
from catalog.search import words
from protocols.signature import Signature

# A verb of these actions adds nothing to the action; “summarize” and “translate” describe the tool.
_COMMON = frozenset(("read", "list", "search", "create", "delete", "update", "send"))
# Synonyms that vendors use for one thing.
_SYNONYMS = (
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
THING_OF = {name: line.split()[0] for line in _SYNONYMS for name in line.split()}
# A phrase for a thing ends before these words.
_PREPOSITIONS = frozenset(
    (
        *("for", "in", "on", "of", "from", "to", "by", "with", "that", "which", "at", "into", "within"),
        *("under", "about", "using", "via", "based", "as", "when", "if", "where", "and", "or", "per"),
        *("between", "whose", "given", "after", "before", "over", "than", "this", "so"),
    )
)
# These words precede the thing and do not describe it.
_FILLERS = frozenset(
    (
        *("a", "an", "the", "all", "any", "one", "several", "multiple", "specific", "specified", "existing"),
        *("new", "list", "every", "each", "your", "my", "given", "single", "complete", "full", "set"),
        *("details", "detail", "information", "info", "collection", "data", "record", "records", "resource"),
        *("resources", "instance", "instances", "paginated", "array", "its", "current"),
        *("batch", "bulk", "default"),
    )
)
# Parts of a thing.
_PARTS = frozenset(("id", "ids", "info", "information", "detail", "details", "data"))
_PLURAL_WORDS = frozenset(("all", "multiple", "list", "lists", "paginated", "several"))
# Words that nearly every tool has.
_STOP_WORDS = frozenset(
    (
        *_PARTS,
        *("use", "used", "using", "via", "return", "returned", "must", "one", "also", "api", "endpoint"),
        *("method", "tool", "specific", "specified", "given", "existing", "single", "new", "provide"),
        *("provides", "provided", "allow", "allows", "json"),
    )
)
# Words before the verb in some descriptions: “This endpoint will”, “Use this method to”.
_AUXILIARIES = (
    r"(?: (?:is|are|was|used|will|can|be|to|for|that|which|lets?|allows?|enables?|helps?|you|users|us))"
)
_OPENING = re.compile(
    r"^(?:(?:(?:you (?:can|may) )?(?:use|call) )?(?:this|the|an?) (?:[\w-]+ )?(?:end ?point|api|method|tool)"
    rf"{_AUXILIARIES}*|(?:(?:this|the|an?) )?(?:end ?point|api|method|tool|operation|function|service|app)"
    rf"{_AUXILIARIES}+) ",
    re.IGNORECASE,
)
# A remark about another tool, such as `confusion.Confusion.sentence` writes. It does not describe this one.
_CLAUSE = r"(?:`[^`]*`|[^.;])*"
_CONTRAST = re.compile(
    rf",?\s*\bnot (?:for|to)\b{_CLAUSE}|\b(?:for (?:that|those|this)|otherwise),? use\b{_CLAUSE}",
    re.IGNORECASE,
)
# A limit describes this tool and, by exclusion, others.
_LIMIT = re.compile(rf"\bonly (?:for|if|when|where)\b{_CLAUSE}", re.IGNORECASE)
# The start of a remark after a description without a full stop.
_REMARK = re.compile(r"(?<![.!?:;]) (?=Use this (?:only )?for )")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)|https?://\S+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_REQUEST = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE) /")
# A text that begins with these words is a whole sentence and cannot follow “for”.
_SENTENCE_STARTERS = frozenset(
    (
        *("if", "when", "this", "that", "these", "you", "your", "it", "in", "note", "please", "there", "we"),
        *("on", "by", "with", "to", "for", "i", "they", "our", "and", "or", "use", "after", "before", "once"),
    )
)
# The beginning of a long description states what the tool is for; the rest is rules and remarks.
_LEAD_LENGTH, _MAX_LENGTH = 200, 800
_MAX_PHRASE, _MAX_GIST = 6, 90
_UNQUOTED = str.maketrans({";": ",", "`": "", "“": "", "”": "", "*": ""})
_DOUBLING_VERBS = frozenset(("get", "put", "set", "run", "stop", "drop", "submit"))
_IN_NAME, _IN_FIRST, _IN_REST, _IN_MEMBERS = 3.0, 1.5, 0.5, 0.25


@dataclass(frozen=True, slots=True)
class Purpose:
    """The meaning of one tool.

    things: the phrases for the verb's object, as stems; the last stem of a phrase is the thing itself.
    words: stems with their weights.
    name_stems, lead_stems: the stems of the name, and of the first sentence.
    spelled: the first spelling of each stem.
    inputs: input names in order.
    gist: the first sentence.
    contrast, contrast_stems: the remark about other tools, and its stems.
    limits: stems of the statements that limit the tool to one purpose (“only for …”).
    """

    name: str
    action: str
    verb: str
    things: tuple[tuple[str, ...], ...]
    words: Mapping[str, float]
    name_stems: frozenset[str]
    lead_stems: frozenset[str]
    spelled: Mapping[str, str]
    inputs: Mapping[str, None]
    gist: str
    contrast: str
    contrast_stems: frozenset[str]
    limits: frozenset[str]

    @property
    def main_stems(self) -> frozenset[str]:
        """Return the stems of the name and the first sentence, with the verb."""
        return self.name_stems | self.lead_stems | {self.verb} - {""}


def words_of(signatures: Iterable[Signature]) -> set[str]:
    """Return the words whose stems `purpose` needs."""
    text_words: set[str] = set()
    for signature in signatures:
        description, contrast = _split_description(signature.description)
        texts = [signature.name, signature.title, description[:_MAX_LENGTH], contrast]
        texts += [*_LIMIT.findall(description), *_names_of_members(signature)]
        text_words.update(word for text in texts for word in words.words(text))
    return text_words | ACTION_OF.keys() | THING_OF.keys() | set(THING_OF.values())


def _names_of_members(signature: Signature) -> list[str]:
    members = [member.name for member in (*signature.inputs, *signature.outputs)]
    return members + [value.name for member in signature.inputs for value in member.allowed_values[:20]]


def _split_description(description: str) -> tuple[str, str]:
    """Split a description into the text about the tool itself and its remarks about others."""
    plain = _REMARK.sub(". ", " ".join(_LINK.sub(r"\1", description).split()))
    return _CONTRAST.sub("", plain), " ".join(_CONTRAST.findall(plain))


class Stems:
    """The stems of words, with one action for synonymous verbs and one name for synonymous things."""

    def __init__(self, stems: Mapping[str, str]) -> None:
        self._stems = stems
        self._actions = {stems[verb]: action for verb, action in ACTION_OF.items() if stems[verb]}
        self._things = {stems[name]: stems[thing] for name, thing in THING_OF.items()}

    def action(self, word: str) -> str:
        return ACTION_OF.get(word) or self._actions.get(self._stems.get(word, word), "")

    def content_stem(self, word: str) -> str:
        """Return the stem, "" for a word that nearly every text has or that only names the action."""
        if word in _STOP_WORDS or self.action(word) in _COMMON:
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
    description, contrast = _split_description(signature.description)
    title = "" if words.name_key(signature.title) == words.name_key(signature.name) else signature.title
    first_sentence = _OPENING.sub("", _first_sentence(description) or title)
    name, lead = words.words(signature.name), words.words(first_sentence[:_LEAD_LENGTH])
    spelled: dict[str, str] = {}
    weights: dict[str, float] = {}
    for weight, text_words in (
        (_IN_NAME, name),
        (_IN_FIRST, [*lead, *words.words(title)]),
        (_IN_REST, words.words(description[:_MAX_LENGTH])),
        (_IN_MEMBERS, words.words(" ".join(_names_of_members(signature)))),
    ):
        for word in text_words:
            if stem := stems.content_stem(word):
                spelled.setdefault(stem, word)
        for stem in {stems.content_stem(word) for word in text_words} - {""}:
            weights[stem] = weights.get(stem, 0.0) + weight
    clause = words.words(first_sentence[:_LEAD_LENGTH].partition(",")[0])
    phrases = _find_things(name, clause if not _REQUEST.match(first_sentence) else [], stems)
    action = _find_action(name, lead, stems)
    if action == "read" and (
        not _PLURAL_WORDS.isdisjoint(lead[:_MAX_PHRASE]) or bool(phrases and stems.is_plural(phrases[0][-1]))
    ):
        action = "list"
    return Purpose(
        name=signature.name,
        action=action,
        verb=stems.thing(lead[0]) if lead else "",
        things=tuple(
            tuple(stem for word in phrase if word not in _PARTS and (stem := stems.thing(word)))
            for phrase in phrases
        ),
        words=weights,
        name_stems=frozenset({stems.content_stem(word) for word in name} - {""}),
        lead_stems=frozenset({stems.content_stem(word) for word in lead} - {""}),
        spelled=spelled,
        inputs=dict.fromkeys(member.name for member in signature.inputs),
        gist=first_sentence,
        contrast=contrast,
        contrast_stems=frozenset(stems.thing(word) for word in words.words(contrast)),
        limits=frozenset(stems.thing(word) for word in words.words(" ".join(_LIMIT.findall(description)))),
    )


def _find_action(name: Sequence[str], lead: Sequence[str], stems: Stems) -> str:
    """Return the action of the sentence; if that only returns something, the action of the name."""
    sentence_action = next((stems.action(word) for word in lead if not _is_adverb(word)), "")
    verb_index = find_verb(name)
    if sentence_action not in ("", "read") or (sentence_action and verb_index is None):
        return sentence_action
    if verb_index is not None:
        return ACTION_OF[name[verb_index]]
    return next((action for word in lead[:3] if (action := stems.action(word))), "")


def describe_use(tool: Purpose) -> str:
    """Phrase the purpose of the tool as a gerund: “Deletes the draft.” becomes “deleting the draft”.

    Falls back to the tool's name if the description has no such phrase.
    """
    if phrase := _to_gerund_phrase(tool.gist):
        return phrase
    name = words.words(tool.name)
    verb_index = find_verb(name)
    if verb_index is not None:
        name = [
            name[verb_index],
            *name[max(0, verb_index - _MAX_PHRASE) : verb_index],
            *name[verb_index + 1 :],
        ]
    return _to_gerund_phrase(" ".join(name)) or one_line(tool.name)


def _to_gerund_phrase(gist: str) -> str:
    plain = gist[:_LEAD_LENGTH].translate(_UNQUOTED).rstrip(".!? ").replace(". ", ", ").replace(".", " ")
    # A gist that is one name, as `RetrieveEmployee`, is split into its words.
    gist_words = plain.split() if " " in plain else words.words(plain)
    verb_index = next((index for index, word in enumerate(gist_words) if not _is_adverb(word)), None)
    if verb_index is None or _REQUEST.match(gist) or gist_words[0].lower() in _SENTENCE_STARTERS:
        return ""
    bases = {
        index: base
        for index in (verb_index, verb_index + 2)
        if (base := _base_form(gist_words[index : index + 1]))
    }
    if gist_words[verb_index + 1 : verb_index + 2] not in (["and"], ["or"]):
        bases.pop(verb_index + 2, None)
    for index, base in bases.items():
        stem = base[:-1] if base.endswith("e") else base + (base[-1] if base in _DOUBLING_VERBS else "")
        gist_words[index] = gist_words[index].replace(gist_words[index].strip(","), f"{stem}ing")
    phrase = " ".join(gist_words)
    phrase = phrase[0].lower() + phrase[1:] if phrase[1:2].islower() or verb_index in bases else phrase
    if len(phrase) <= _MAX_GIST:
        return phrase
    # Shortened, without trailing words that need another one.
    phrase_words = phrase[:_MAX_GIST].rsplit(" ", 1)[0].split()
    while phrase_words and phrase_words[-1].lower().strip(",") in _PREPOSITIONS | _FILLERS:
        phrase_words.pop()
    return " ".join(phrase_words).rstrip(",")


def one_line(text: str) -> str:
    """Reduce a name that a user entered to text that does not end the sentence around it."""
    return " ".join(text.translate(_UNQUOTED).replace(".", " ").split())[:_MAX_GIST]


def _is_adverb(word: str) -> bool:
    return word.lower().endswith("ly") or word.lower() == "and"


def _base_form(text_words: Sequence[str]) -> str:
    """Return the base form of a verb that the table has, or that ends as only a verb would at the start of a
    sentence.
    """
    verb = "".join(text_words).lower().strip(",")
    ends = (("ies", "y"), ("es", ""), ("s", ""))
    bases = [verb.removesuffix(end) + instead for end, instead in ends if verb.endswith(end)]
    known_base = next((base for base in (verb, *bases) if base in ACTION_OF), "")
    if known_base or not verb.isalpha() or not verb.endswith("s") or verb.endswith(("ss", "us", "is")):
        return known_base
    return bases[-2] if verb.endswith(("shes", "ches", "xes", "sses")) else bases[-1]


def _first_sentence(text: str) -> str:
    sentences = _SENTENCE_END.split(text, maxsplit=2)
    # A single word in front of the sentence is a label.
    is_label = len(sentences) > 1 and len(sentences[0].split()) == 1
    return sentences[1] if is_label else sentences[0]


def _find_things(name: Sequence[str], lead: Sequence[str], stems: Stems) -> list[Sequence[str]]:
    """Return the object of the verb that starts the sentence, then that of the verb in the name."""
    sentence_phrase: Sequence[str] = ()
    is_verb = bool(lead) and (bool(stems.action(lead[0])) or _begins_alike(name, lead, stems))
    if is_verb:
        is_content = [
            word not in _FILLERS and word not in _PREPOSITIONS and not stems.action(word) for word in lead[1:]
        ]
        start = next((index for index, is_kept in enumerate(is_content, 1) if is_kept), len(lead))
        text_words = lead[start:]
        thing = _until_preposition(text_words[:_MAX_PHRASE])
        remainder = text_words[len(thing) :]
        if not thing or remainder[:1] != ["of"]:
            sentence_phrase = thing
        else:
            owner = list(dropwhile(_FILLERS.__contains__, remainder[1:]))
            sentence_phrase = [*_until_preposition(owner[:3]), *thing]
    verb_index = find_verb(name)
    if verb_index is None and _begins_alike(name, lead, stems):
        verb_index = 0
    if verb_index is None:
        return [phrase for phrase in (sentence_phrase, name[-2:]) if phrase]
    following = list(dropwhile(("for", "to", "of").__contains__, name[verb_index + 1 :]))
    object_words = [
        word for word in _until_preposition(following) if word not in _FILLERS and not word.isdigit()
    ]
    return [
        phrase
        for phrase in (sentence_phrase, object_words or name[max(0, verb_index - 2) : verb_index])
        if phrase
    ]


def _begins_alike(name: Sequence[str], lead: Sequence[str], stems: Stems) -> bool:
    return len(name) > 1 and bool(lead) and stems.thing(name[0]) == stems.thing(lead[0])


def _until_preposition(text_words: Sequence[str]) -> Sequence[str]:
    return list(takewhile(lambda word: word not in _PREPOSITIONS, text_words))
