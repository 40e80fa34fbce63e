"""Datasets of other libraries are recognized by their file names, and the error says how to convert them."""

from pathlib import Path

import pytest

from headrace.format.other_formats import GUIDE, index_path, possible_texts, recognised, texts_beside
from tests.support.other_formats import LITDATA, MDS

# paths below a folder, the start of its index.json → description
FOLDERS = {
    "LitData": (["chunk-0-0.bin", "index.json"], LITDATA, "a LitData data set (index.json)"),
    "LitData, packed": (["chunk-0-0.zstd.bin"], b"", "a LitData data set (chunk-0-0.zstd.bin)"),
    "LitData's splits": (["train/chunk-0-0.bin", "train/index.json"], LITDATA, "a LitData data set (train/index.json)"),
    "MDS": (["index.json", "shard.00000.mds"], MDS, "an MDS data set of MosaicML Streaming (index.json)"),
    "MDS, packed": (["shard.00000.mds.zstd"], b"", "an MDS data set of MosaicML Streaming (shard.00000.mds.zstd)"),
    "MDS of other shards": (["index.json", "shard.0.jsonl"], MDS, "an MDS data set of MosaicML Streaming (index.json)"),
    "Lance": (["_versions/1.manifest", "data/x.lance"], b"", "a Lance data set (_versions/1.manifest)"),
    "LanceDB": (["clips.lance/_transactions/0.txn"], b"", "a Lance data set (clips.lance/_transactions/0.txn)"),
    "Zarr 2": (["0.0", ".zarray"], b"", "a Zarr store (.zarray)"),
    "Zarr 3": (["c/0", "zarr.json"], b"", "a Zarr store (zarr.json)"),
    "Zarr below": (["clips.zarr/0.0"], b"", "a Zarr store (clips.zarr/0.0)"),
    "ArrayRecord": (
        ["dataset_info.json", "x.array_record-00000-of-00002"],
        b"",
        "a data set of ArrayRecord files (x.array_record-00000-of-00002)",
    ),
    "HDF5": (["a/x.hdf5"], b"", "a data set of HDF5 files (a/x.hdf5)"),
    "TFRecord": (["dataset_info.json", "a.tfrecord"], b"", "a data set of TFRecord files (a.tfrecord)"),
    "TFDS": (["x.tfrecord-00000-of-00004"], b"", "a data set of TFRecord files (x.tfrecord-00000-of-00004)"),
    "save_to_disk": (
        ["data-0.arrow", "dataset_info.json", "state.json"],
        b"",
        "a data set of Arrow files, as Hugging Face datasets writes them (data-0.arrow)",
    ),
    "a saved DatasetDict": (
        ["dataset_dict.json", "train/state.json"],
        b"",
        "a data set of Arrow files, as Hugging Face datasets writes them (dataset_dict.json)",
    ),
    "the Hub's Parquet": (
        ["README.md", "data/train-0.parquet", "dataset_info.json"],
        b"",
        "a data set of Parquet files (data/train-0.parquet)",
    ),
    "Lhotse": (["cuts.jsonl.gz"], b"", "a folder of Lhotse manifests (cuts.jsonl.gz)"),
    "Shar without tars": (["cuts.000000.jsonl.gz"], b"", "a folder of Lhotse manifests (cuts.000000.jsonl.gz)"),
    "Kaldi": (["text", "utt2spk", "wav.scp"], b"", "a Kaldi directory (wav.scp)"),
    "NeMo": (["a.wav", "train_manifest.json"], b"", "a folder with a NeMo manifest (train_manifest.json)"),
    "recordings": (["notes.txt", "sub/a.WAV"], b"", "a folder of recordings (sub/a.WAV)"),
    "recordings and a table": (["a.wav", "metadata.parquet"], b"", "a folder of recordings (a.wav)"),
    "archives": (["a.tar.bz2"], b"", "a folder of archives of another kind (a.tar.bz2)"),
    "splits of tars": (["test/0.tar", "train/0.tar"], b"", "a folder of folders of tars (test/0.tar)"),
    "Energon": (["part_0/0.tar", ".nv-meta"], b"", "a folder of folders of tars (part_0/0.tar)"),
    "a build that did not end": (
        ["catalog/catalog.jsonl", "catalog/rejected.parquet"],
        b"",
        "an output of Headrace without a snapshot (catalog/catalog.jsonl)",
    ),
}


@pytest.mark.parametrize(("paths", "index_json", "what"), FOLDERS.values(), ids=FOLDERS)
def test_a_folder_is_recognized_by_its_file_names(paths, index_json, what):
    found = recognised(paths, index_json)
    assert found is not None
    assert found.what == what
    assert found.way_out


@pytest.mark.parametrize("paths", [[], ["notes.txt"], ["state.json"], ["dataset_info.json"], ["index.json"], ["x.py"]])
def test_ordinary_names_are_not_recognized(paths):
    assert recognised(paths) is None


def test_the_error_about_tars_in_subfolders_names_each_folder_and_a_glob():
    found = recognised([f"{split}/{split}-0.tar" for split in ("dev", "test", "train", "tune")])
    assert found is not None
    assert found.way_out == (
        "name the one that is meant (dev, test, train and 1 more), or the tars of all by a glob: */*.tar below it"
    )


def test_the_nearest_index_json_counts():
    assert index_path(["a/index.json", "index.json", "b/c/index.json", "index.json.gz"]) == "index.json"
    assert index_path(["b/c/index.json"]) is None


@pytest.mark.parametrize(
    ("tar", "texts"),
    [
        ("recording.000003.tar", ["cuts.000003.jsonl.gz", "cuts.000003.jsonl"]),
        ("x/recording.000003.tar.gz", ["x/cuts.000003.jsonl.gz", "x/cuts.000003.jsonl"]),
        ("b/audio_7.tar", ["b/tarred_audio_manifest.json", "b/tarred_audio_manifest.jsonl"]),
        ("train-000003.tar", []),
        ("train_p0000_000003_0123456789ab.tar", []),
        ("000003.tar", []),
    ],
)
def test_text_files_are_searched_only_beside_tars_named_like_those_of_lhotse_or_nemo(tar, texts):
    assert list(possible_texts(tar)) == texts


def test_the_warning_about_text_files_beside_tars_says_what_to_do():
    assert texts_beside(["sizes.json", "a.json", "manifest.json", "cuts.jsonl"]) is None
    for name, words in (
        ("cuts.000000.jsonl.gz", "the cuts of a Lhotse Shar folder"),
        ("x/cuts.000000.jsonl", r"recording.*.tar"),
        ("tarred_audio_manifest.json", "the manifest of NeMo's tars"),
        ("manifest_0.json", "by key in a transform"),
    ):
        loss = texts_beside(["sizes.json", name])
        assert loss is not None
        assert loss.startswith(f"{name} holds ")
        assert words in loss
        assert GUIDE in loss


def test_the_migration_guide_exists():
    assert Path(GUIDE).is_file()
