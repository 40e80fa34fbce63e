"""Indexes of other tools beside tars: they save requests where they are right, and never change a sample."""

import json
import warnings

import numpy as np
import pytest

from headrace import StreamingDataset
from headrace.format.indexes.index_files import find_index
from headrace.stores.storage import LocalStorage
from headrace.upkeep.tar_indexes import index_tars
from tests.support.foreign_indexes import WRITERS, place, write
from tests.support.foreign_tars import members
from tests.support.streaming.fault_server import fault_server
from tests.support.tars import tar_of
from tests.upkeep.test_tar_sets_remote import num_bytes, read

NUM_SAMPLES, FRAMES = 6, 60_000  # members of 120 kB
LONG = "n" * 80  # a name that needs a header of its own


def sound(numbers=range(NUM_SAMPLES), fields=("flac", "json"), prefix="", **more):
    """The members of a tar."""
    return {
        f"{prefix}{name}": blob
        for number in numbers
        for name, blob in members(number, num_frames=FRAMES, **more).items()
        if name.endswith(fields)
    }


@pytest.fixture(scope="module")
def face(tmp_path_factory):
    with fault_server(tmp_path_factory.mktemp("bucket")) as face, pytest.MonkeyPatch.context() as patch:
        for name, value in face.environment().items():
            patch.setenv(name, value)
        yield face


@pytest.fixture
def tar(face, request):
    """A tar in a folder of its own, in the bucket."""
    folder = face.folder / str(abs(hash(request.node.nodeid)))
    folder.mkdir()
    (path := folder / "a.tar").write_bytes(tar_of(sound()))
    return path


def indexed(face, tar, into, *, is_remote=True, columns=True):
    """The arrays of the index that Headrace makes of a tar, and the warnings."""
    uri = f"{face.uri}/{tar.parent.name}" if is_remote else str(tar.parent)
    face.requests.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (result,) = index_tars(f"{uri}/a.tar", num_threads=1, columns=columns, into=str(into))
    assert not result.fault
    index = find_index(LocalStorage(into), "a.tar").index
    return (index.keys(), index.ranges.tolist(), index.num_frames.tolist()), [str(one.message) for one in caught]


def number(blob, at, value):
    """The bytes of a list of numbers with one changed."""
    numbers = np.frombuffer(blob, "<u8").copy()
    numbers[at] = value(int(numbers[at]))
    return numbers.tobytes()


def entry(blob, name="s002.flac", **values):
    """The JSON of webshart with the entry of one file changed."""
    content = json.loads(blob)
    files = content["files"]
    one = files[name] if isinstance(files, dict) else next(one for one in files if one["fname"] == name)
    one.update(values)
    return json.dumps(content).encode()


def shifted(blob):
    return entry(blob, offset=json.loads(blob)["files"]["s003.flac"]["offset"])


OFFSETS = ("energon", "lhotse")
WRONG = {
    "an offset a block late": (OFFSETS, lambda blob: number(blob, 2, lambda old: old + 512), "sample 2 begins at"),
    "an offset a block early": (OFFSETS, lambda blob: number(blob, 2, lambda old: old - 512), "sample 2 begins at"),
    "an offset within a block": (OFFSETS, lambda blob: number(blob, 2, lambda old: old + 8), "rising places"),
    "an offset too many": (OFFSETS, lambda blob: blob[:8] + number(blob[:8], 0, lambda old: old + 512) + blob[8:], "7"),
    "falling offsets": (OFFSETS, lambda blob: number(blob, 2, lambda old: 512), "rising places"),
    "a huge offset": (OFFSETS, lambda blob: number(blob, 3, lambda old: 2**64 - 1), "rising places"),
    "cut off": (OFFSETS, lambda blob: blob[:-3], "64-bit numbers"),
    "cut off at a number": (OFFSETS, lambda blob: blob[:-8], "is of 5 samples"),
    "empty": (OFFSETS, lambda blob: b"", "0 bytes"),
    "without samples": (OFFSETS, lambda blob: blob[-8:], "is of 0 samples"),
    "another format": (OFFSETS, lambda blob: b"v1.2 6\n", "64-bit numbers"),
    "the end too early": (("energon",), lambda blob: number(blob, -1, lambda old: old - 512), "ends at byte"),
    "the place of another file": (("webshart",), shifted, "no such member there"),
    "another length": (("webshart",), lambda blob: entry(blob, length=5), "no such member there"),
    "another name": (("webshart",), lambda blob: blob.replace(b"s002.json", b"t002.json"), "t002.json"),
    "another size": (("webshart",), lambda blob: blob.replace(b'"filesize": ', b'"filesize": 1'), "is of a tar of"),
    "JSON cut off": (("webshart", "cheesechaser"), lambda blob: blob[:-9], ""),
    "deep JSON": (("webshart",), lambda blob: b'{"files": ' + b"[" * 9**5, "nested"),
    "a negative offset": (("webshart", "cheesechaser"), lambda blob: entry(blob, offset=-512), "no place"),
    "a negative length": (("webshart",), lambda blob: entry(blob, length=-5), "outside"),
    "a huge length": (("webshart",), lambda blob: entry(blob, length=10**30), "outside"),
    "a huge number": (("webshart",), lambda blob: blob.replace(b'"length": 1', b'"length": 1' + b"0" * 5000), ""),
    "a text for a number": (("webshart",), lambda blob: entry(blob, offset="512"), "no place"),
    "a truth value": (("webshart",), lambda blob: entry(blob, length=True), "no place"),
    "a list for a size": (("webshart",), lambda blob: json.dumps(json.loads(blob) | {"filesize": []}).encode(), "[]"),
    "texts for files": (("webshart",), lambda blob: b'{"files": {"a.flac": "x"}}', "no place"),
    "files without names": (("cheesechaser",), lambda blob: b'{"files": [{"offset": 512}, 3]}', "without a name"),
}


@pytest.fixture(scope="module")
def known(face, tmp_path_factory):
    """The index of the tar of these tests, made without an index of others."""
    (folder := face.folder / "known").mkdir()
    (path := folder / "a.tar").write_bytes(tar_of(sound()))
    found, said = indexed(face, path, tmp_path_factory.mktemp("without"))
    assert not said
    return found


@pytest.mark.parametrize("case", [(form, name) for name, (forms, *_) in WRONG.items() for form in forms], ids="-".join)
def test_a_wrong_index_is_left_unused_and_said_so(face, tar, tmp_path, known, case):
    form, wrong = case
    path = write(tar, form)
    path.write_bytes(WRONG[wrong][1](path.read_bytes()))
    found, (said,) = indexed(face, tar, tmp_path)
    assert found == known
    assert said.startswith(f"{face.uri}/{tar.parent.name}/{path.name}: ")
    assert WRONG[wrong][2] in said
    assert said.endswith(
        "it is left unused, and the tar is read without it. Write it again with its tool, or remove it"
    )


@pytest.mark.parametrize("form", WRITERS)
def test_a_right_index_changes_nothing_and_nothing_is_said(face, tar, tmp_path, known, form):
    write(tar, form)
    assert indexed(face, tar, tmp_path) == (known, [])


@pytest.mark.parametrize("form", WRITERS)
def test_indexes_beside_local_tars_are_not_read(face, tar, tmp_path, known, form):
    write(tar, form)
    assert indexed(face, tar, tmp_path / "right", is_remote=False) == (known, [])
    place(tar, form).write_bytes(b'"files" that are not one')
    assert indexed(face, tar, tmp_path / "wrong", is_remote=False) == (known, [])


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("columns", [False, True])
def test_the_index_of_a_tar_that_was_written_again_is_left_unused(face, tar, tmp_path, form, columns):
    write(tar, form)
    tar.write_bytes(tar_of(sound([5, 1, 0, 7], prefix="x")))
    found, said = indexed(face, tar, tmp_path / "with", columns=columns)
    assert len(said) == 1
    place(tar, form).unlink()
    assert indexed(face, tar, tmp_path / "without", columns=columns) == (found, [])


@pytest.mark.parametrize("form", WRITERS)
def test_long_names_and_members_that_are_no_samples_are_no_flaw(face, tar, tmp_path, form):
    tar.write_bytes(tar_of({"README": b"x", **sound(prefix=f"{LONG}/"), "__end__.txt": b"x"}))
    write(tar, form)
    assert indexed(face, tar, tmp_path)[1] == []


@pytest.mark.parametrize("blob", [b"", b"{}", b"[1, 2]", b'{"files": 3}', b'{"files": {}}', b'"files"', b"\xff"])
def test_json_of_another_kind_is_no_index(face, tar, tmp_path, blob):
    tar.with_suffix(".json").write_bytes(blob)
    assert indexed(face, tar, tmp_path)[1] == []


@pytest.mark.parametrize("form", WRITERS)
def test_headers_and_texts_take_one_request_for_a_sample_instead_of_several(face, tar, tmp_path, form):
    tar.write_bytes(tar_of(sound(fields=("flac", "json", "txt", "cls"), note="x" * 1500)))
    indexed(face, tar, tmp_path / "without")
    without = read(face)
    write(tar, form)
    indexed(face, tar, tmp_path / "with")
    assert len(without) >= 3 * NUM_SAMPLES
    assert len(read(face)) <= NUM_SAMPLES + 5
    assert num_bytes(read(face)) <= 1.1 * num_bytes(without)


@pytest.mark.parametrize("form", WRITERS)
def test_with_an_index_a_data_set_opens_by_headers_alone(face, tar, tmp_path, form):
    uri = f"{face.uri}/{tar.parent.name}"
    samples = StreamingDataset(remote=uri, local=str(tmp_path / "without"), batch_size=1)
    assert num_bytes(read(face)) >= tar.stat().st_size
    write(tar, form)
    face.requests.clear()
    same = StreamingDataset(remote=uri, local=str(tmp_path / "with"), batch_size=1)
    assert num_bytes(read(face)) <= 0.04 * tar.stat().st_size
    assert [same[n]["__key__"] for n in range(NUM_SAMPLES)] == [samples[n]["__key__"] for n in range(NUM_SAMPLES)]
    assert all((same[n]["audio"] == samples[n]["audio"]).all() for n in range(NUM_SAMPLES))


@pytest.mark.parametrize("form", WRITERS)
def test_a_data_set_with_a_wrong_index_has_the_same_samples(face, tar, tmp_path, form):
    uri = f"{face.uri}/{tar.parent.name}"
    write(tar, form)
    tar.write_bytes(tar_of(sound([5, 1, 0, 7], prefix="x")))
    with pytest.warns(UserWarning, match="left unused"):
        dataset = StreamingDataset(remote=uri, local=str(tmp_path), batch_size=1)
    assert [dataset[n]["__key__"] for n in range(4)] == ["xs005", "xs001", "xs000", "xs007"]


@pytest.mark.parametrize("form", WRITERS)
def test_a_tar_that_has_to_be_read_whole_is_read_from_front_to_end(face, tar, tmp_path, form):
    tar.write_bytes(tar_of({name.replace(".flac", ".mp3"): blob for name, blob in sound().items()}))
    write(tar, form)
    face.requests.clear()
    StreamingDataset(remote=f"{face.uri}/{tar.parent.name}", local=str(tmp_path), batch_size=1)
    assert len(read(face)) <= 6
