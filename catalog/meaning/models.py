"""Plug-in point: a model that turns texts into vectors is one class and one line in `MODELS`.

An address that offers OpenAI's `POST /embeddings` is a model, too.
"""

from dataclasses import dataclass

# Stands for the address in PEGBOARD_SEARCH_MEANING.
ADDRESS = "address"


@dataclass(frozen=True)
class Model:
    """A model, whose library is imported when it is loaded.

    recipe: names the model and its version; vectors of another recipe cannot be compared.
    encoder: where its `Encoder` is, as `module:class`.
    takes_memory: the process drops the model while nobody searches.
    """

    recipe: str
    dimensions: int
    encoder: str
    takes_memory: bool = True


MODELS = {
    "use": Model(
        "universal-sentence-encoder-multilingual-3 .45, all-MiniLM-L6-v2 int8 .55, names .2",
        896,
        "catalog.meaning.sentence_encoder:SentenceEncoder",
    )
}


def is_address(name: str) -> bool:
    """Return whether PEGBOARD_SEARCH_MEANING is the address of a model and not the name of one."""
    return name.startswith(("http://", "https://"))


def find_model(name: str) -> Model:
    """Return the model of this name. Raises KeyError."""
    if name != ADDRESS:
        return MODELS[name]
    from django.conf import settings  # noqa: PLC0415 - they take memory that other models do not need

    dimensions = settings.SEARCH_MEANING_DIMENSIONS
    recipe = f"{settings.SEARCH_MEANING} {settings.SEARCH_MEANING_MODEL} {dimensions}"
    return Model(recipe, dimensions, "catalog.meaning.embeddings:EmbeddingsEncoder", takes_memory=False)
