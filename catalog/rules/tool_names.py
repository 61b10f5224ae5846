"""The verbs in the names of tools, and the action that each of them means. Pure."""

from collections.abc import Sequence
from itertools import takewhile

# Verbs by action. A call for one action is hardly ever meant for a tool of another one.
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
# Many names use these as nouns, as in `create_order`: then another verb in the name is the action.
_VERBS_USED_AS_NOUNS = frozenset(
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


def find_verb(name: Sequence[str]) -> int | None:
    """Return the index of the verb among the words of a name, or None without one.

    It stands before its object, as in `issues_delete_comment`, or after it, as in `comments_delete`.
    """
    main_words = list(takewhile(lambda word: word not in ("by", "for", "with"), name))
    verbs = [index for index, word in enumerate(main_words) if word in ACTION_OF]
    verbs = [index for index in verbs if name[index] not in _VERBS_USED_AS_NOUNS] or verbs
    return (verbs[-1] if verbs[-1] == len(name) - 1 else verbs[0]) if verbs else None
