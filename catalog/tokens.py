"""A token estimate that needs no model: JSON and English run at about four characters a token."""

CHARACTERS_PER_TOKEN = 4


def estimate_tokens(shown: str | bytes) -> int:
    """Tokens of the text a model is shown, rounded up. Within about 15 % of the common tokenizers."""
    return -(-len(shown) // CHARACTERS_PER_TOKEN)
