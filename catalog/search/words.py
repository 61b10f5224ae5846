"""Text as words, the same way for tools and for questions.

PostgreSQL's parser keeps `SendMessage` and `repos/get-content` whole, so identifiers are taken apart
here and only single words go to its stemmer. Scripts that write no spaces become pairs of characters.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

# Longer runs are keys and encoded data; their beginning is enough.
MAX_WORD_LENGTH = 50
# Terms that are no words of a text: no word ever starts with one of these.
TAG_MARK, GROUP_MARK = "#", "~"
_RUN = re.compile(r"[^\W_]+")
# Several times faster than the pattern, and most text is ASCII.
_SPACED = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
# Han, kana and their relatives, Thai, Lao, Burmese, Khmer.
_UNSPACED = re.compile("[\u2e80-\u312f\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")
# What is left of "I'd", "I'm", "we'll"; the stemmer knows "s" and "t" itself.
_CLITICS = frozenset(("d", "m", "ll", "re", "ve"))
_MIN_ACRONYM_LENGTH = 2

# Words that ask without saying what for. A catalog hardly ever writes them, which would make them look rare
# and therefore telling.
ASKING = frozenset(
    (
        *(
            "able",
            "additionally",
            "also",
            "anyone",
            "assist",
            "could",
            "curious",
            "enjoy",
            "finally",
            "furthermore",
        ),
        *(
            "hello",
            "help",
            "hey",
            "hi",
            "hope",
            "interested",
            "kindly",
            "know",
            "lastly",
            "let",
            "like",
            "looking",
        ),
        *(
            "love",
            "moreover",
            "need",
            "please",
            "provide",
            "sure",
            "tell",
            "thank",
            "thanks",
            "try",
            "trying",
        ),
        *("want", "wish", "wonder", "wondering", "would"),
        # As people type them in a hurry.
        *("whats", "hows", "whos", "wheres", "whens", "theres", "lets", "im", "ive", "youre", "theyre"),
        *(
            "dont",
            "doesnt",
            "didnt",
            "cant",
            "wont",
            "isnt",
            "arent",
            "gonna",
            "wanna",
            "gotta",
            "pls",
            "plz",
            "thx",
        ),
    )
)
# One action, many verbs, and the HTTP methods that vendors put into names.
_ACTIONS = (
    "get fetch retrieve read show view lookup obtain display return",
    "list show all browse enumerate get",
    "create add make new post insert register generate",
    "delete remove cancel destroy erase drop",
    "update edit modify change put patch set replace",
    "search find query lookup discover look",
    "send post deliver",
    "book reserve schedule",
    "check verify validate test",
    "compute calculate",
)


_GROUPS = [frozenset(line.split()) for line in _ACTIONS]
# For each verb the other verbs of its actions.
SYNONYMS = {
    verb: frozenset[str]().union(*(group for group in _GROUPS if verb in group)) - {verb}
    for verb in frozenset[str]().union(*_GROUPS)
}


def fold(text: str) -> str:
    """Remove accents and compatibility forms: `é` becomes `e`, the ligature fi becomes two letters."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def runs(text: str) -> list[str]:
    if text.isascii():
        return text.translate(_SPACED).split()
    return _RUN.findall(fold(text))


@lru_cache(maxsize=20_000)
def parts(run: str) -> tuple[str, ...]:
    """The words inside one run: `getUserByID` is get, user, by, id."""
    if run in _CLITICS:
        return ()
    if not run.isascii():
        return tuple(part[:MAX_WORD_LENGTH] for part in _split_unspaced(run.lower()))
    pieces = [run] if run.islower() and run.isalpha() else PART.findall(run)
    # `v2`, `s3` and `B2B` are words of their own; `OAuth2` and `sendMessage` are several.
    if not (len(pieces) > 1 and any(len(part) > 2 for part in pieces)):
        pieces = [run]
    # A letter that is left over, as of `OAuth`, says nothing; the identifier in one piece still holds it.
    meaningful_pieces = [part for part in pieces if len(part) > 1 or part.isdigit()]
    return tuple(
        part.lower()[:MAX_WORD_LENGTH] for part in (meaningful_pieces if len(pieces) > 1 else pieces)
    )


def _split_unspaced(run: str) -> Iterator[str]:
    """Yield the characters and pairs of characters of scripts without spaces, and what is between them."""
    end = 0
    for match in _UNSPACED.finditer(run):
        if match.start() > end:
            yield run[end : match.start()]
        text, end = match.group(), match.end()
        yield from text
        yield from (text[i : i + 2] for i in range(len(text) - 1))
    if end < len(run):
        yield run[end:]


def is_unspaced(text: str) -> bool:
    """Return whether the text has characters of a script without spaces, such as Chinese."""
    return _UNSPACED.search(text) is not None


def words(text: str) -> list[str]:
    return [word for run in runs(text) for word in parts(run)]


def with_compound(run: str) -> tuple[str, ...]:
    """Return the words inside one run of letters, and the run as a whole."""
    # People type `github` where a vendor wrote `GitHub`.
    pieces = parts(run)
    return (*pieces, run.lower()[:MAX_WORD_LENGTH]) if len(pieces) > 1 and run.isascii() else pieces


def name_key(name: str) -> str:
    """Return the form that spellings of one name share: `refill_prescription`, `Refill prescription`."""
    return "".join(runs(name)).lower()


def is_marked(term: str) -> bool:
    """Return whether this is the term of a tag or of a group of everyday words, which has no stem."""
    return term[0] in (TAG_MARK, GROUP_MARK)


def acronyms(text: str) -> set[str]:
    # Words in capitals amid others that are not: in such a question "IT" is not "it".
    if text.isupper():
        return set()
    return {run.lower() for run in runs(text) if run.isupper() and len(run) >= _MIN_ACRONYM_LENGTH}


def typo_distance(a: str, b: str, limit: int) -> int:
    """Return the edits from `a` to `b`, at most `limit + 1`. Swapped neighbours count once."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        older, before, row = before, row, [i]
        for j, other_letter in enumerate(b, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != other_letter))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other_letter:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)
