"""Rules on wording that steers a model instead of describing a tool.

They find what is blatant. Polite English passes all of them, which docs/inspection.md and the page of
the review say. Gaps between words are bounded, so no text can make a pattern slow.
"""

import re

from catalog.inspection.alarms import Hit, text_rule

WORD = r"(?:[\w'\u2019-]{1,20}[ \n]{1,3})"


def _first(pattern: re.Pattern[str], text: str) -> Hit | None:
    found = pattern.search(text)
    return Hit(found.start(), found.end()) if found else None


CONCEAL = re.compile(
    rf"(?:do not|don['\u2019]t|dont|never|must not|should not|without|avoid)[ \n]{WORD}{{0,3}}?"
    r"(?:tell|mention|reveal|inform|notify|disclose|alert|telling|mentioning|revealing|informing|notifying"
    rf"|disclosing|alerting)[ \n]{WORD}{{0,5}}?(?:users?|humans?|operators?|people|anyone|anybody)\b"
)
OVERRIDE = re.compile(
    rf"(?:ignore|disregard|forget|override|bypass)[ \n]{WORD}{{0,3}}?"
    r"(?:previous|prior|above|earlier|all|any|your|system|safety|other)[ \n]"
    rf"(?:{WORD}{{0,2}}?(?:instructions?|rules|prompts?|guidelines|guardrails|safeguards|directives|"
    r"safety checks|context)\b)"
    r"|(?:ignore|disregard|forget)[ \n](?:all[ \n])?(?:previous|prior)\b"
)
PSEUDO_TAG = re.compile(
    r"</?[ ]?(?:important|system|secrets?|instructions?|assistant|admin|hidden|developer)[ ]?>"
    r"|<\|[a-z_]{2,30}\|>|\[/?inst\]|<</?sys>>|#{2,4} ?(?:instructions?|system)(?: prompt)? ?:"
)
ROLE = re.compile(
    r"\byou are now (?:an?|the|in)\b|\bfrom now on,? you\b|\bnew (?:system )?instructions? ?:"
    r"|\bact as (?:an? |the )?(?:admin|administrator|root|superuser|system|developer)\b"
    r"|(?:^|[\n\"])[ ]{0,4}system ?(?:prompt|message)? ?:[ ]"
)
ORDER = re.compile(
    r"(?:before|after|whenever|when|prior to|instead of)[ \n](?:you )?"
    r"(?:call|us|invok|run|execut)(?:e|ing)?[ \n]"
    rf"{WORD}{{0,2}}?(?:any|other|another|every|all|each)[ \n]{WORD}{{0,2}}?tools?\b"
)
SHADOW = re.compile(
    r"(?:instead of|in place of|replaces|overrides|supersedes|do not use|don['\u2019]t use|never use"
    r"|stop using)"
    rf"[ \n]{WORD}{{0,2}}?(?:other|existing|built-?in|official|original|previous)[ \n]{WORD}{{0,2}}?"
    r"tools?\b"
)
SECRETS = re.compile(
    r"\.ssh\b(?:/|[ \n]folder|[ \n]directory)|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|/etc/(?:passwd|shadow)\b"
    r"|\.aws/credentials|(?<![\w.])\.env\b(?!\.\w)|\.(?:cursor|vscode)/|\.(?:npmrc|netrc|git-credentials|pgpass)\b"
    r"|\.kube/config|\bprivate key files?\b|\bclaude_desktop_config\b"
)
CONTEXT = re.compile(
    r"(?:include|send|pass|provide|append|attach|forward|copy|insert|put|share|write|report)(?:ing|s)?[ \n]"
    rf"{WORD}{{0,4}}?(?:(?:conversation|chat|message) history|(?:full|entire|whole|complete) "
    r"(?:conversation|chat|context|dialogue)|system prompts?|list of (?:all )?(?:available |other )?tools"
    r"|chain of thought|previous messages|your (?:instructions|reasoning|memory))\b"
)
COERCE = re.compile(
    rf"(?:must|always)[ \n]{WORD}{{0,2}}?(?:call|use|invoke|run)(?:ed|d)?[ \n](?:this|it)\b(?: \w{{1,12}})?"
    r"[ ,\n](?:\w{1,12} ){0,2}?(?:first|before)\b"
)
PREFER = re.compile(
    r"(?:always|must) (?:choose|prefer|select|pick|use) this\b|(?:best|most accurate|only) tool (?:for|to)\b"
    r"|prefer this (?:tool|over)\b"
)
STEERING = re.compile(r"(?:you must|you should always|always|never|ignore|disregard)\b")


@text_rule(
    *("CONCEAL", "high", "asks to keep something from people"),
    *(
        "tell",
        "mention",
        "reveal",
        "inform the",
        "notify",
        "notifying",
        "disclos",
        "alert",
        "inform any",
        "informing",
    ),
)
def conceal(text: str) -> Hit | None:
    return _first(CONCEAL, text)


@text_rule(
    *("OVERRIDE", "high", "tells a model to set its instructions aside"),
    *("ignore", "disregard", "forget", "override", "bypass"),
)
def override(text: str) -> Hit | None:
    return _first(OVERRIDE, text)


@text_rule(
    *("PSEUDO_TAG", "high", "dresses text up as an instruction of the system"),
    *("<", "inst]", "##"),
)
def pseudo_tag(text: str) -> Hit | None:
    """Some public documentation uses such a tag for a box: closed, and with nothing odd inside."""
    found = PSEUDO_TAG.search(text)
    if found is None:
        return None
    word = found.group().strip("</> ")
    is_closed = found.group().startswith("<") and f"</{word}>" in text and word == "important"
    is_odd = any(find(text) for find in (conceal, override, secrets, context, order, coerce))
    return Hit(found.start(), found.end(), "medium" if is_closed and not is_odd else "high")


@text_rule(
    "ROLE",
    "medium",
    "gives a model another role",
    "you are now",
    "from now on",
    "instructions:",
    "instructions :",
    "instruction:",
    "act as",
    "system:",
    "system prompt",
    "system message",
)
def role(text: str) -> Hit | None:
    return _first(ROLE, text)


@text_rule("TOOL_ORDER", "medium", "says what to do when other tools are used", " tool")
def order(text: str) -> Hit | None:
    return _first(ORDER, text)


@text_rule("SHADOW", "high", "puts itself in the place of other tools", " tool")
def shadow(text: str) -> Hit | None:
    return _first(SHADOW, text)


@text_rule(
    *("SECRET_FILES", "high", "names files that hold secrets"),
    *(
        ".ssh",
        "id_rsa",
        "id_e",
        "id_dsa",
        "/etc/",
        ".aws",
        ".env",
        ".cursor/",
        ".vscode/",
        ".npmrc",
        ".netrc",
        ".git-cred",
        ".kube",
        "private key",
        ".pgpass",
    ),
    "claude_desktop",
)
def secrets(text: str) -> Hit | None:
    return _first(SECRETS, text)


@text_rule(
    *("CONTEXT_LEAK", "high", "asks for what a model knows beside the call"),
    *(" history", "conversation", " chat", " context", " dialogue", "system prompt", " tools", "of thought"),
    *("previous messages", "your instructions", "your reasoning", "your memory"),
)
def context(text: str) -> Hit | None:
    return _first(CONTEXT, text)


@text_rule("COERCE", "medium", "demands to be called first", "must", "always")
def coerce(text: str) -> Hit | None:
    if "first" not in text and "before" not in text:
        return None
    return _first(COERCE, text)


@text_rule(
    "PREFER",
    "low",
    "recommends itself over other tools",
    " tool ",
    "choose this",
    "prefer this",
    "select this",
    "use this",
    "pick this",
)
def prefer(text: str) -> Hit | None:
    return _first(PREFER, text)


@text_rule(
    "STEERING", "low", "gives orders to its reader", "you must", "always", "never", "ignore", "disregard"
)
def steering(text: str) -> Hit | None:
    return _first(STEERING, text)
