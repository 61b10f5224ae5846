"""Words of a description that may be names of other tools. Pure. The caller looks the names up."""

import re

from protocols.signature import Signature

# Shorter ones, such as “to-do”, are more often words than names.
MIN_NAME_LENGTH = 6
# The limit for one query.
MAX_NAMES = 200
# An identifier with a separator. A single word is rarely meant as a name.
NAME = re.compile(r"(?<![\w./:@-])[A-Za-z][A-Za-z0-9]{0,40}(?:[_-][A-Za-z0-9]{1,40}){1,12}(?![\w/:@-])")


def find_mentions(signature: Signature) -> set[str]:
    """Return the words that look like tool names, without the names of this tool and its parameters."""
    own_names = {signature.name, *(parameter.name for parameter in (*signature.inputs, *signature.outputs))}
    texts = [signature.description, *(parameter.description for parameter in signature.inputs)]
    mentions: set[str] = set()
    for text in texts:
        if "_" in text or "-" in text:
            mentions.update(name for name in NAME.findall(text) if len(name) >= MIN_NAME_LENGTH)
        if len(mentions) > MAX_NAMES:
            break
    return mentions - own_names
