"""Errors about a single sample of `webdataset_loader` name its shard, its key and a solution."""

import io

import pytest
import torch

from headrace import webdataset_loader
from headrace.errors import SampleError
from tests.support.tars import tar_of


def write(path, members):
    path.write_bytes(tar_of(members))


def read(folder, **options):
    return list(webdataset_loader(folder, batch_size=None, **options))


def give_nothing(sample):
    sample["seen"] = True


def give_none_of_b(sample):
    return None if sample["__key__"] == "b" else sample


def fail(sample):
    return sample["absent"]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_transform_that_forgets_to_return_is_an_error(tmp_path, num_workers, batch_size):
    write(tmp_path / "a.tar", {"a.txt": b""})
    words = r"a\.tar: sample 'a': the transform gave None: let it return the sample"
    with pytest.raises(SampleError, match=words):
        list(webdataset_loader(tmp_path, batch_size=batch_size, transform=give_nothing, num_workers=num_workers))


def test_a_transform_that_returns_none_for_some_samples_is_an_error(tmp_path):
    write(tmp_path / "a.tar", {"a.txt": b"", "b.txt": b""})
    with pytest.raises(SampleError, match="sample 'b': the transform gave None"):
        read(tmp_path, transform=give_none_of_b)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_error_in_a_transform_names_the_sample(tmp_path, num_workers):
    write(tmp_path / "a.tar", {"a.txt": b""})
    with pytest.raises(SampleError, match=r"a\.tar: sample 'a': KeyError: 'absent'") as caught:
        read(tmp_path, transform=fail, num_workers=num_workers)
    assert num_workers or isinstance(caught.value.__cause__, KeyError)


def test_invalid_json_is_reported_as_such(tmp_path):
    write(tmp_path / "a.tar", {"a.json": b"{oops"})
    with pytest.raises(SampleError, match=r"a\.tar: sample 'a': its \.json is not valid JSON \(.*write it again"):
        read(tmp_path)


TAKEN = (
    "audio sample_rate num_frames frame_offset metadata keys is_padding encoder_hidden encoder_length encoder_offset "
    "encoder_hidden_mel"
)


@pytest.mark.parametrize("name", TAKEN.split())
def test_a_file_with_a_reserved_field_name_is_an_error_that_says_so(tmp_path, name):
    write(tmp_path / "a.tar", {"a.txt": b"", f"a.{name}": b"bytes"})
    with pytest.raises(SampleError, match=rf"a\.tar: sample 'a': its file \.{name} clashes with .*another extension"):
        read(tmp_path)


def test_other_names_are_ordinary_fields(tmp_path):
    write(tmp_path / "a.tar", {"a.key": b"1", "a.frames": b"2", "a.audio.txt": b"3"})
    (batch,) = webdataset_loader(tmp_path)
    assert [batch[name] for name in ("key", "frames", "audio.txt")] == [[b"1"], [b"2"], [b"3"]]


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


HIDDEN = torch.ones(5, 4)


@pytest.mark.parametrize("name", ["metadata", "keys", "is_padding", "__key__"])
def test_an_entry_of_a_pth_with_a_reserved_field_name_is_an_error(tmp_path, name):
    write(tmp_path / "a.tar", {"a.pth": saved({"encoder_hidden": HIDDEN, "encoder_length": 5, name: 1})})
    with pytest.raises(SampleError, match=rf"a\.tar: sample 'a': its \.pth has an entry {name!r}, which clashes"):
        read(tmp_path)


def test_a_file_and_an_entry_of_a_pth_with_the_same_name_are_an_error(tmp_path):
    write(tmp_path / "a.tar", {"a.cls": b"1", "a.pth": saved({"cls": 2})})
    with pytest.raises(SampleError, match=r"sample 'a': its file \.cls clashes"):
        read(tmp_path)


@pytest.mark.parametrize("length", [9, -1, 6])
def test_a_length_beyond_the_latents_is_an_error(tmp_path, length):
    write(tmp_path / "a.tar", {"a.pth": saved({"encoder_hidden": HIDDEN, "encoder_length": length})})
    with pytest.raises(SampleError, match=rf"a\.tar: sample 'a': .*encoder_length.* {length}.*0 to 5"):
        read(tmp_path)


@pytest.mark.parametrize(
    "content", [{"encoder_hidden": HIDDEN}, {"encoder_hidden": HIDDEN[0], "encoder_length": 1}, {"encoder_hidden": [1]}]
)
def test_latents_of_another_form_are_an_error(tmp_path, content):
    write(tmp_path / "a.tar", {"a.pth": saved(content)})
    with pytest.raises(SampleError, match=r"a\.tar: sample 'a': \.pth holds a dict of .*expected latents"):
        read(tmp_path)


@pytest.mark.parametrize("length", [0, 3, 5, torch.tensor(3)])
def test_a_valid_length_is_returned_as_a_number(tmp_path, length):
    content = {"encoder_hidden": HIDDEN, "encoder_length": length, "note": "kept"}
    write(tmp_path / "a.tar", {"a.pth": saved(content)})
    (sample,) = read(tmp_path)
    assert sample["encoder_length"] == int(length)
    assert type(sample["encoder_length"]) is int
    assert sample["note"] == "kept"
    assert torch.equal(sample["encoder_hidden"], HIDDEN)


@pytest.mark.parametrize("content", [HIDDEN, {0: HIDDEN}, [1, 2]], ids=["tensor", "numbered", "list"])
def test_other_entries_of_a_pth_are_fields(tmp_path, content):
    write(tmp_path / "a.tar", {"a.pth": saved(content)})
    (sample,) = webdataset_loader(tmp_path, batch_size=None)
    assert str(sample["pth"]) == str(content)
