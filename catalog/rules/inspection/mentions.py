"""Which words of a description could be the names of tools. Pure; whose names they are is asked in SQL."""

import re

from protocols.signature import Signature

# Shorter ones, such as “to-do”, are words of a sentence more often than names.
MIN_NAME_LENGTH = 6
# One question to the database asks for all of them.
MAX_NAMES = 200
# An identifier with a separator: single words are words before they are names.
NAME = re.compile(r"(?<![\w./:@-])[A-Za-z][A-Za-z0-9]{0,40}(?:[_-][A-Za-z0-9]{1,40}){1,12}(?![\w/:@-])")


def mentioned(signature: Signature) -> set[str]:
    """Without the tool's own name and those of its own parameters."""
    own = {signature.name, *(each.name for each in (*signature.inputs, *signature.outputs))}
    texts = [signature.description, *(each.description for each in signature.inputs)]
    found: set[str] = set()
    for text in texts:
        if "_" in text or "-" in text:
            found.update(name for name in NAME.findall(text) if len(name) >= MIN_NAME_LENGTH)
        if len(found) > MAX_NAMES:
            break
    return found - own
