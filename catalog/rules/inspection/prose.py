"""Rules on wording that steers a model instead of describing a tool.

They do not recognise polite English, as docs/inspection.md and the review page explain.
"""

from catalog.rules.inspection import patterns
from catalog.rules.inspection.alarms import AlarmMatch, text_rule
from catalog.rules.inspection.clauses import find_clause


@text_rule("CONCEAL", "high", "asks to hide something from users", folds=True)
def conceal(text: str) -> AlarmMatch | None:
    return find_clause(patterns.CONCEAL, text)


@text_rule("OVERRIDE", "high", "tells the model to ignore its instructions", folds=True)
def override(text: str) -> AlarmMatch | None:
    return find_clause(patterns.OVERRIDE, text)


@text_rule(
    *("PSEUDO_TAG", "high", "imitates an instruction of the system"),
    *("<", "inst]", "##", "[", "{{"),
)
def pseudo_tag(text: str) -> AlarmMatch | None:
    # Some public documentation uses such a tag for a box: it is closed, and its content is harmless.
    match = patterns.PSEUDO_TAG.search(text)
    if match is None:
        return None
    word = match.group().strip("</> ")
    is_closed = match.group().startswith("<") and f"</{word}>" in text and word == "important"
    is_odd = any(find(text) for find in (conceal, override, secrets, context, order, coerce))
    return AlarmMatch(match.start(), match.end(), "medium" if is_closed and not is_odd else "high")


@text_rule(
    *("FALSE_TURN", "medium", "begins a line like a message of another speaker"),
    *(
        "system:",
        "system :",
        "system prompt",
        "system message",
        "human:",
        "human :",
        "assistant:",
        "assistant :",
    ),
)
def false_turn(text: str) -> AlarmMatch | None:
    return AlarmMatch.search(patterns.TURN, text)


@text_rule("FRAME", "high", "imitates the start or end of the system's instructions", folds=True)
def frame(text: str) -> AlarmMatch | None:
    return find_clause(patterns.FRAME, text)


@text_rule("ADDRESSED", "medium", "addresses the model instead of describing the tool", folds=True)
def find_address_to_model(text: str) -> AlarmMatch | None:
    return find_clause(patterns.ADDRESSED, text)


@text_rule("ROLE", "medium", "gives a model another role", folds=True)
def role(text: str) -> AlarmMatch | None:
    return find_clause(patterns.ROLE, text)


@text_rule(
    "TOOL_ORDER", "medium", "says what to do when other tools are used", " tool", " function", folds=True
)
def order(text: str) -> AlarmMatch | None:
    return find_clause(patterns.ORDER, text)


@text_rule("SHADOW", "high", "tells the model to use it in place of other tools", " tool", folds=True)
def shadow(text: str) -> AlarmMatch | None:
    return find_clause(patterns.SHADOW, text)


@text_rule("HIJACK", "high", "changes what other calls do", folds=True)
def hijack(text: str) -> AlarmMatch | None:
    return find_clause(patterns.HIJACK, text)


@text_rule("DESPITE", "medium", "puts itself above the instructions of the user", folds=True)
def despite(text: str) -> AlarmMatch | None:
    return find_clause(patterns.DESPITE, text)


@text_rule("UNASKED", "medium", "asks to act without a user's consent", folds=True)
def find_unasked_action(text: str) -> AlarmMatch | None:
    return find_clause(patterns.UNASKED, text)


@text_rule(
    *("SECRET_FILES", "high", "names files that contain secrets"),
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
    ),
    *(".git-cred", ".kube", "private key", ".pgpass", "claude_desktop", ".pypirc", ".docker", "_history"),
    *(
        "/environ",
        "authorized_keys",
        "169.254",
        "metadata.google",
        "wallet.dat",
        " phrase",
        "cookies",
        "browser",
    ),
)
def secrets(text: str) -> AlarmMatch | None:
    return AlarmMatch.search(patterns.SECRETS, text)


@text_rule("SHELL_COMMAND", "high", "contains a command that runs a download or deletes files")
def shell(text: str) -> AlarmMatch | None:
    return find_clause(patterns.SHELL, text)


@text_rule("CONTEXT_LEAK", "high", "asks for what the model knows from elsewhere", folds=True)
def context(text: str) -> AlarmMatch | None:
    return find_clause(patterns.CONTEXT, text)


@text_rule("CREDENTIAL_LEAK", "high", "asks for passwords, keys or tokens to be sent along", folds=True)
def credentials(text: str) -> AlarmMatch | None:
    return find_clause(patterns.CREDENTIALS, text)


@text_rule("EXFILTRATION", "medium", "names a destination for private data", folds=True)
def exfiltration(text: str) -> AlarmMatch | None:
    return find_clause(patterns.EXFILTRATION, text)


@text_rule("COERCE", "medium", "demands to be called first", folds=True)
def coerce(text: str) -> AlarmMatch | None:
    return find_clause(patterns.COERCE, text)


@text_rule("PREFER", "low", "recommends itself over other tools", folds=True)
def prefer(text: str) -> AlarmMatch | None:
    return find_clause(patterns.PREFER, text)


@text_rule("STEERING", "low", "gives orders to the model", folds=True)
def steering(text: str) -> AlarmMatch | None:
    return find_clause(patterns.STEERING, text)
