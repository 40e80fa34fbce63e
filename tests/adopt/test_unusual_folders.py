"""`headrace adopt` of folders without a layout, and of files that cannot be read as their names say."""

import bz2
import gzip
import io
import lzma
import os
import zipfile
from pathlib import Path

import pytest
import zstandard

from headrace.adopt.command import adopt
from headrace.adopt.recognising import recognise
from headrace.errors import ConfigError
from tests.support.corpora import write_sound
from tests.support.tars import tar_of

COMPRESSED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}
NAMES = ["x.tar", "x.tgz", "x.tar.packed", "deep/x.TAR"]


def sound(folder):
    return write_sound(folder / "sound/a.wav", 1).read_bytes()


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def fault(path):
    with pytest.raises(ConfigError, match="no layout is recognised") as found:
        recognise(path)
    return str(found.value)


@pytest.mark.parametrize("compress", COMPRESSED.values(), ids=COMPRESSED)
@pytest.mark.parametrize("name", NAMES)
def test_a_compressed_tar_is_named_as_what_it_is_by_any_name(tmp_path, name, compress):
    file = tmp_path / "corpus" / name
    put(file, compress(tar_of({"a.wav": sound(tmp_path)})))
    for path, shown in ((tmp_path / "corpus", name), (file, file.name)):
        assert f"{shown} is a compressed archive, and recordings are read in place: unpack it" in fault(path)


def test_a_zip_is_named_as_what_it_is(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a.wav", sound(tmp_path))
    put(tmp_path / "corpus/x.zip", buffer.getvalue())
    assert "x.zip is a compressed archive" in fault(tmp_path / "corpus")


WITHOUT_AUDIO = {"empty": b"", "letters": b"x" * 2000, "no member": tar_of({}), "a text": tar_of({"a.txt": b"x"})}


@pytest.mark.parametrize("content", WITHOUT_AUDIO.values(), ids=WITHOUT_AUDIO)
def test_a_tar_without_recordings_is_named(tmp_path, content):
    put(tmp_path / "corpus/x.tar", content)
    assert "x.tar is a tar without recordings among its first members, or is damaged" in fault(tmp_path / "corpus")


@pytest.mark.parametrize("content", [*WITHOUT_AUDIO.values(), b"\x1f\x8b"], ids=[*WITHOUT_AUDIO, "gzip"])
def test_tars_are_recognised_by_any_of_the_first(tmp_path, content):
    put(tmp_path / "corpus/a.tar", content)
    put(tmp_path / "corpus/b.tar", tar_of({"b.wav": sound(tmp_path)}))
    assert recognise(tmp_path / "corpus")[1].source["kind"] == "webdataset"


def test_a_link_to_a_folder_is_named_with_the_folder(tmp_path):
    sound(tmp_path)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/data").symlink_to(tmp_path / "sound")
    assert f"data is a link to a folder, and is not followed: adopt {tmp_path / 'sound'}" in fault(tmp_path / "corpus")


@pytest.mark.parametrize("name", ["p.tar", "p.parquet", "metadata.csv", "m.json", "cuts.jsonl.gz", "p.zip", "p"])
def test_a_pipe_is_not_read(tmp_path, name):
    """Opening a pipe to which nothing writes would wait without end."""
    (tmp_path / "corpus").mkdir()
    os.mkfifo(tmp_path / "corpus" / name)
    fault(tmp_path / "corpus")


@pytest.mark.parametrize("name", [b"\xff.wav", b"\xff/a.wav", b"c\xe9/\xff.wav"])
def test_a_recording_whose_name_is_not_utf8_is_named_with_the_reason(tmp_path, name, capsys):
    path = os.fsencode(tmp_path / "corpus") + b"/" + name
    put(Path(os.fsdecode(path)), sound(tmp_path))
    write_sound(tmp_path / "corpus/good.wav", 2)
    assert adopt([str(tmp_path / "corpus"), "--yaml", str(tmp_path / "mine.yaml")]) == 0
    said = capsys.readouterr().out
    assert "good-" in said
    assert "not valid UTF-8" in said


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["index.json", "shard.00000.mds"], "an MDS data set of MosaicML Streaming"),
        (["train/index.json", "train/shard.00000.mds.zstd"], "an MDS data set of MosaicML Streaming"),
        (["index.json", "chunk-0-0.bin"], "a LitData data set"),
        (["dataset_info.json", "state.json", "data-00000-of-00001.arrow"], "a data set of Arrow files"),
        (["x.h5"], "a data set of HDF5 files"),
        (["a/x.hdf5"], "a data set of HDF5 files"),
        (["x.zarr/zarr.json"], "a Zarr store"),
        (["x.lance/_versions/1.manifest"], "a Lance data set"),
        (["x.array_record"], "a data set of ArrayRecord files"),
        (["x.parquet"], "a data set of Parquet files"),
        (["a.npz"], "a data set of NumPy or PyTorch files"),
        (["a/b.npy"], "a data set of NumPy or PyTorch files"),
        (["a.pt", "b.pth"], "a data set of NumPy or PyTorch files"),
        ([".zgroup", "array/0.0"], "a Zarr store"),
        ([".zarray", "0.0"], "a Zarr store"),
    ],
)
def test_a_data_set_of_another_library_is_named_with_the_way_out(tmp_path, names, what):
    for name in names:
        packed = b"(\xb5/\xfd" if name.endswith(".zstd") else b"PK\x03\x04" if name.endswith((".npz", ".pt")) else b"{}"
        put(tmp_path / "corpus" / name, packed)
    assert f"It is {what}" in (said := fault(tmp_path / "corpus"))
    assert "write its samples to tars once, or build shards from the recordings" in said


@pytest.mark.parametrize(("other", "key"), [("shard.00000.mds", "shards"), ("chunk-0-0.bin", "chunks")])
def test_the_index_of_a_data_set_of_another_library_is_no_table(tmp_path, other, key):
    put(tmp_path / "corpus/index.json", f'{{"{key}": []}}'.encode())
    put(tmp_path / "corpus" / other, b"x")
    assert "data set" in (said := fault(tmp_path / "corpus/index.json"))
    assert "write its samples to tars once, or build shards from the recordings" in said


@pytest.mark.parametrize("name", ["m.jsonl.gz", "m.json.gz", "m.csv.gz", "m.tsv.gz", "deep/m.txt.gz"])
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_packed_table_is_no_archive(tmp_path, name, is_cut):
    packed = gzip.compress(b"{not JSON")
    put(tmp_path / "corpus" / name, packed[:-8] if is_cut else packed)
    assert f"{name} is a table that names no recordings, or is damaged" in fault(tmp_path / "corpus")


def test_stems_of_songs_are_pointed_out(tmp_path, capsys):
    for song in "abc":
        for stem in ("drums", "vocals"):
            write_sound(tmp_path / "corpus" / song / f"{stem}.wav", ord(song) + len(stem))
    assert adopt([str(tmp_path / "corpus"), "--yaml", str(tmp_path / "mine.yaml")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "each folder has drums.wav, vocals.wav" in said
    assert "source.fields" in said


@pytest.mark.parametrize("form", ["paths", "names"])
def test_a_table_with_several_recordings_in_a_row_says_so(tmp_path, capsys, form):
    rows = ["song,mix,vocals"]
    for song in "abc":
        for stem in ("mix", "vocals"):
            write_sound(tmp_path / f"corpus/{stem}/{song}-{stem}.wav", ord(song) + len(stem))
        before = [f"{stem}/" if form == "paths" else "" for stem in ("mix", "vocals")]
        rows.append(f"{song},{before[0]}{song}-mix.wav,{before[1]}{song}-vocals.wav")
    (tmp_path / "corpus/songs.csv").write_text("\n".join(rows))
    assert adopt([str(tmp_path / "corpus"), "--yaml", str(tmp_path / "mine.yaml")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "column vocals names recordings, too, which are not read as such" in said
    assert "source.fields" in said
