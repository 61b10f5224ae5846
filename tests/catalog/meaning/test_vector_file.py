import errno
import os

import numpy as np
import pytest

from catalog.meaning import vector_file
from catalog.meaning.vector_file import RESCORED, DamagedVectorsError, VectorFile

DIMENSIONS = 100


def vectors_of(count, seed=1):
    made = np.random.default_rng(seed).standard_normal((count, DIMENSIONS)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def open_file(path, recipe="model 1"):
    return VectorFile(path, recipe, DIMENSIONS)


@pytest.fixture
def vectors():
    return vectors_of(3)


@pytest.fixture
def stored(tmp_path, vectors):
    file = open_file(tmp_path / "meaning")
    file.write([11, 12, 13], [1, 1, 2], vectors, [], "state 1")
    return file


def test_the_nearest_tool_comes_first(stored, vectors):
    nearest = stored.nearest(vectors[1], None, 2)
    assert next(iter(nearest)) == 12
    assert nearest[12] == pytest.approx(1.0, abs=1e-3)
    assert len(nearest) == 2


def test_only_tools_of_the_endpoints_are_compared(stored, vectors):
    assert list(stored.nearest(vectors[1], [2], 5)) == [13]
    assert stored.nearest(vectors[1], [9], 5) == {}


def test_cosines_are_of_the_tools_that_have_a_vector(stored, vectors):
    assert stored.cosines(vectors[2:3], [13, 99, 0]) == {13: pytest.approx(1.0, abs=1e-3)}
    assert stored.cosines(vectors[:3], [13, 11]) == pytest.approx({13: 1.0, 11: 1.0}, abs=1e-3)


def test_a_tool_is_replaced_and_removed(stored, vectors):
    stored.write([12], [1], vectors[2:], [13], "state 2")
    assert next(iter(stored.nearest(vectors[2], None, 3))) == 12
    assert stored.nearest(vectors[2], None, 3).keys() == {11, 12}
    stored.write([14], [1], vectors[:1], [], "state 3")
    assert stored.nearest(vectors[2], None, 9).keys() == {11, 12, 14}


def test_another_process_reads_what_was_written(stored, tmp_path, vectors):
    again = open_file(tmp_path / "meaning")
    assert again.state == "state 1"
    assert again.nearest(vectors[0], None, 3) == stored.nearest(vectors[0], None, 3)


def test_vectors_of_another_model_are_thrown_away(stored, tmp_path, vectors):
    other = open_file(tmp_path / "meaning", recipe="model 2")
    assert other.state is None
    assert other.nearest(vectors[0], None, 3) == {}


@pytest.mark.parametrize("damage", ["head.json", "keys", "vectors"])
def test_damaged_files_are_thrown_away(stored, tmp_path, vectors, damage):
    (tmp_path / "meaning" / damage).write_bytes(b"{")
    assert open_file(tmp_path / "meaning").state is None


def test_a_full_disk_loses_nothing(stored, tmp_path, monkeypatch):
    made, tools = vectors_of(2_000), list(range(101, 2_101))
    reserve, calls = os.posix_fallocate, []

    def reserve_once(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        reserve(*arguments)

    monkeypatch.setattr(os, "posix_fallocate", reserve_once)
    with pytest.raises(OSError, match="No space"):
        stored.write(tools, [1] * 2_000, made, [], "state 2")
    assert open_file(tmp_path / "meaning").state == "state 1"
    stored.write(tools, [1] * 2_000, made, [], "state 2")
    again = open_file(tmp_path / "meaning")
    assert again.state == "state 2"
    assert next(iter(again.nearest(made[7], None, 1))) == 108


@pytest.mark.parametrize("tool", [-5, 2**60])
def test_keys_of_no_tool_are_thrown_away(stored, tmp_path, tool):
    keys = tmp_path / "meaning" / "keys"
    keys.write_bytes(tool.to_bytes(8, "little", signed=True) + keys.read_bytes()[8:])
    assert open_file(tmp_path / "meaning").state is None


def test_thousands_of_tools_are_compared_by_their_signs_first(tmp_path):
    file, vectors = open_file(tmp_path / "meaning"), vectors_of(5_000)
    for start in range(0, 5_000, 500):
        tools = range(start + 1, start + 501)
        file.write(list(tools), [1] * 500, vectors[start : start + 500], [], str(start))
    question = vectors[4_321] + vectors_of(1, seed=2)[0] / 2
    exact = [place + 1 for place in np.argsort(-(vectors @ question))[:10].tolist()]
    nearest = list(file.nearest(question, None, 10))
    assert nearest[0] == exact[0] == 4_322
    assert len(set(nearest) & set(exact)) >= 7
    assert len(open_file(tmp_path / "meaning").nearest(question, None, 9_999)) == RESCORED


@pytest.mark.parametrize("name", ["keys", "signs", "vectors", "sums"])
@pytest.mark.parametrize("is_open", [False, True])
def test_garbled_files_are_noticed(stored, tmp_path, name, is_open):
    path = tmp_path / "meaning" / name
    with path.open("r+b") as file:
        file.seek(5)
        byte = file.read(1)[0]
        file.seek(5)
        file.write(bytes([byte ^ 0x10]))
    try:
        (stored if is_open else open_file(tmp_path / "meaning")).check_next()
    except DamagedVectorsError:
        return
    # Keys of no tool are noticed when the files are opened.
    assert open_file(tmp_path / "meaning").state is None


def test_garbled_vectors_are_never_compared(stored, tmp_path, vectors):
    path = tmp_path / "meaning" / "vectors"
    with path.open("r+b") as file:
        file.write(b"garbled")
    with pytest.raises(DamagedVectorsError):
        stored.nearest(vectors[0], None, 3)
    with pytest.raises(DamagedVectorsError):
        stored.cosines(vectors[:1], [11])


@pytest.mark.parametrize("name", ["keys", "signs", "vectors", "sums"])
def test_files_that_were_cut_off_or_deleted_are_not_read(stored, tmp_path, vectors, name):
    path = tmp_path / "meaning" / name
    os.truncate(path, 4)
    with pytest.raises(DamagedVectorsError):
        stored.nearest(vectors[0], None, 3)
    path.unlink()
    with pytest.raises(DamagedVectorsError):
        stored.check_next()


def test_every_place_is_checked_in_turn(tmp_path, monkeypatch):
    monkeypatch.setattr("catalog.meaning.vector_file._CHECKED", 2)
    file = open_file(tmp_path / "meaning")
    file.write([11, 12, 13, 14, 15], [1] * 5, vectors_of(5), [], "state 1")
    file._vectors[4, 3] += 1
    file.check_next()
    file.check_next()
    with pytest.raises(DamagedVectorsError):
        file.check_next()


def test_a_place_whose_writing_was_interrupted_is_no_damage(stored, tmp_path, monkeypatch, vectors):
    monkeypatch.setattr(VectorFile, "_sum_places", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        stored.write([12], [1], vectors[2:], [], "state 2")
    monkeypatch.undo()
    again = open_file(tmp_path / "meaning")
    again.check_next()
    assert again.state == "state 1"


def test_processors_that_share_a_scan_find_what_one_finds(tmp_path, monkeypatch):
    count = 40_000
    vectors = vectors_of(count)
    file = open_file(tmp_path / "meaning")
    file.write(range(1, count + 1), [1] * count, vectors, range(2, 500), "state 1")
    alone = file.nearest(vectors[0], None, 20)
    monkeypatch.setattr(vector_file, "_SHARED", 1)
    assert file.nearest(vectors[0], None, 20) == alone
    assert next(iter(alone)) == 1
    assert not alone.keys() & set(range(2, 500))


def test_of_many_equal_vectors_only_some_are_compared(tmp_path):
    count = 3 * RESCORED
    vectors = np.repeat(vectors_of(1), count, axis=0)
    file = open_file(tmp_path / "meaning")
    file.write(range(1, count + 1), [1] * count, vectors, [], "state 1")
    assert len(file.nearest(vectors[0], None, count)) == RESCORED
