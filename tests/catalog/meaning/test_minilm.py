from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from catalog.meaning.minilm import DIMENSIONS, MiniLM

TEXTS = ["track a parcel", "where is my shipment", "cancel a meeting", "", "x" * 9_000, "你好", "\0 \ud7ff"]


@pytest.fixture(scope="module")
def model():
    return MiniLM()


def test_vectors_have_length_1_whatever_the_text(model):
    vectors = model.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), DIMENSIONS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert model.encode([]).shape == (0, DIMENSIONS)


def test_texts_of_one_meaning_are_nearer(model):
    parcel, shipment, meeting = model.encode(TEXTS[:3])
    assert parcel @ shipment > parcel @ meeting + 0.1


def test_the_vector_of_a_text_does_not_depend_on_others(model):
    together = model.encode(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        alone = np.vstack(list(pool.map(lambda text: model.encode([text]), TEXTS)))
    assert together == pytest.approx(alone, abs=1e-6)


def test_the_end_of_a_long_text_counts_no_more(model):
    start = "pay an invoice " * 100
    first, second = model.encode([start, start + "and walk the dog"])
    assert first == pytest.approx(second)
