"""Plug-in point: a model that turns texts into vectors is one class and one line in `MODELS`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A model, whose library is imported when it is loaded.

    recipe: names the model and its version; vectors of another recipe cannot be compared.
    encoder: where its `Encoder` is, as `module:class`.
    """

    recipe: str
    dimensions: int
    encoder: str


MODELS = {
    "use": Model(
        "universal-sentence-encoder-multilingual-3",
        512,
        "catalog.meaning.sentence_encoder:UniversalSentenceEncoder",
    )
}
