"""Views, columns, latents and splits in each form of export, from the command line on a whole output."""

import json

import pytest

from headrace.cli import main
from headrace.errors import ConfigError, FormatError, IntegrityError
from headrace.exports.exporting import export_snapshot
from headrace.exports.selected import SelectedSamples, Selection
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.stores.storage import LocalStorage, open_storage
from headrace.streaming.dataset import StreamingDataset
from headrace.streaming.world import World
from tests.support import export_readers
from tests.support.column_fixtures import write_columns
from tests.support.s3 import new_bucket
from tests.support.streaming.corpus import Clip, clips, write_dataset
from tests.support.view_fixtures import write_view

TRAIN, TEST = clips(11), clips(4, first=200)
FLACS = {clip.key: clip.flac() for clip in (*TRAIN, *TEST)}


def number(key):
    return int(key.removeprefix("clip"))


def times(key):
    """0, 1 or 2."""
    return number(key) % 3


def once(key):
    return int(number(key) % 2 == 0)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output") / "birds"
    write_dataset(folder, {"train": TRAIN, "test": TEST}, per_shard=4, latents=True)
    write_columns(folder, "metadata", {"title": ("string", lambda key: f"Clip {number(key)}")})
    loud = {"loud": ("float", lambda key: number(key) / 2 if number(key) % 2 else None)}
    write_columns(folder, "levels", {**loud, "tags": ("json", lambda key: [number(key), "a"])})
    write_view(folder, "often", times)
    write_view(folder, "some", once)
    return folder


@pytest.fixture
def export(output, tmp_path, capsys):
    def run(to, *options):
        target = tmp_path / to
        code = main(["export", str(output), str(target), "--to", to, "--json", *options])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        return target, json.loads(shown.out)

    return run


def wanted(samples, count=lambda _: 1):
    """Name and audio of each sample, those of a view as often as it takes them."""
    return [
        (clip.key + (f"-copy{copy}" if copy else ""), FLACS[clip.key])
        for clip in samples
        for copy in range(count(clip.key))
    ]


@pytest.mark.medium
def test_a_plain_export_of_a_view_holds_each_repetition_and_is_read_by_our_loader(export):
    target, said = export("webdataset", "--view", "often")
    everything = wanted(TEST, times) + wanted(TRAIN, times)
    assert (said["num_samples"], said["num_linked"]) == (len(everything), 0)
    read = [sample["__key__"] for sample in StreamingDataset(remote=str(target), world=World(0, 1))]
    assert read == [name for name, _ in everything]
    assert main(["verify", str(target)]) == 0


def test_columns_and_latents_are_beside_the_audio_in_a_plain_export(export):
    target, _ = export("webdataset", "--columns", "levels", "--latents", "crepe", "--split", "train")
    found = export_readers.members(target / "train_000000.tar")
    assert [name for name, _ in found[:3]] == ["clip00000.flac", "clip00000.json", "clip00000.pth"]
    content = json.loads(found[4][1])
    assert (content["title"], content["loud"], content["tags"]) == ("Clip 1", 0.5, [1, "a"])
    assert found[2][1] == TRAIN[0].pth()
    assert not list(target.glob("test_*"))
    clip = next(iter(StreamingDataset(remote=str(target), world=World(0, 1))))
    assert clip["encoder_hidden"].shape == TRAIN[0].hidden().shape


@pytest.mark.medium
def test_parquet_has_columns_latents_and_repetitions_with_their_types(export, monkeypatch, tmp_path):
    import pyarrow.parquet

    import datasets

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    options = ("--view", "often", "--columns", "levels", "--latents", "crepe")
    target, said = export("parquet", *options)
    assert said["num_shards"] == 2
    loaded = datasets.load_dataset(str(target), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == ["test", "train"] or set(loaded) == {"test", "train"}
    rows = loaded["train"].cast_column("audio", datasets.Audio(decode=False))
    expected = [clip for clip in TRAIN for _ in range(times(clip.key))]
    assert rows["key"][:] == [clip.key for clip in expected]
    assert [row["bytes"] for row in rows["audio"]] == [clip.flac() for clip in expected]
    assert rows["title"][:] == [f"Clip {clip.number}" for clip in expected]
    assert rows["loud"][:] == [clip.number / 2 if clip.number % 2 else None for clip in expected]
    assert [json.loads(tags) for tags in rows["tags"]] == [[clip.number, "a"] for clip in expected]
    assert rows["crepe"][0] == expected[0].hidden().astype("float32").tolist()
    schema = pyarrow.parquet.read_schema(target / "data/train-00000-of-00001.parquet")
    assert json.loads(schema.metadata[b"huggingface"])["info"]["features"]["audio"] == {"_type": "Audio"}


def test_row_groups_and_files_of_parquet_have_their_limits(export, monkeypatch):
    import pyarrow.parquet

    most = max(map(len, FLACS.values()))
    monkeypatch.setattr("headrace.exports.parquet._GROUP_BYTES", most)
    monkeypatch.setattr("headrace.exports.parquet._FILE_BYTES", 5 * most)
    target, said = export("parquet")
    files = sorted((target / "data").glob("train-*"))
    assert len(files) > 1
    assert [path.name for path in files] == [f"train-{i:05d}-of-{len(files):05d}.parquet" for i in range(len(files))]
    tables = [pyarrow.parquet.ParquetFile(path) for path in files]
    assert all(table.num_row_groups > 1 for table in tables[:-1])
    keys = [key for table in tables for key in table.read(["key"])["key"].to_pylist()]
    assert keys == [clip.key for clip in TRAIN]
    assert said["num_shards"] == len(list((target / "data").iterdir()))


SPLITS = {
    "one": ("train",),
    "beginnings of others": ("dev", "dev-clean", "train", "train-other"),
    "names of one's own": ("Abc1", "x"),
}


@pytest.mark.medium
@pytest.mark.parametrize("names", SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize("card", ["written", "edited"])
def test_datasets_reads_each_export_and_each_split_of_a_folder_again(names, card, tmp_path, monkeypatch):
    """With a list of files in the card, `datasets` takes what it kept of an earlier export, and `dev-*` for `dev`."""
    import datasets

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for number, size in enumerate((3, 3, 5)):
        samples = {name: clips(size, first=100 * number + 10 * i) for i, name in enumerate(names)}
        write_dataset(tmp_path / f"{number}/output", samples, per_shard=2)
        export_snapshot(LocalStorage(tmp_path / f"{number}/output/audio"), LocalStorage(tmp_path / "out"), "parquet")
        if card == "edited":
            (tmp_path / "out/README.md").write_text("---\nlicense: cc0-1.0\n---\n")
        loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
        assert {name: rows["key"][:] for name, rows in loaded.items()} == {
            name.replace("-", "_"): [clip.key for clip in found] for name, found in samples.items()
        }


def test_an_edited_card_stays(export, output, tmp_path):
    target, _ = export("parquet")
    card = target / "README.md"
    assert card.read_text() == '---\npretty_name: "birds"\ntags: [audio]\n---\n\n# birds\n'
    card.write_text(card.read_text() + "By hand.\n")
    export("parquet", "--split", "train")
    assert card.read_text().endswith("By hand.\n")
    assert not list((target / "data").glob("test-*"))


@pytest.mark.parametrize("view", [None, "often"])
def test_nemo_gets_manifests_with_metadata(export, view):
    options = ("--columns", "levels", *(("--view", view) if view else ()))
    target, _ = export("nemo", *options)
    found, rows = export_readers.nemo(target / "train")
    assert found == wanted(TRAIN, times if view else lambda _: 1)
    key = found[1][0].partition("-")[0]
    assert rows[1]["title"] == f"Clip {number(key)}"
    assert rows[1]["duration"] == next(clip.num_frames for clip in TRAIN if clip.key == key) / 8000
    assert rows[1]["tags"] == [number(key), "a"]
    assert not {"headrace", "refused"} & set(rows[0])
    alone, _ = export("nemo", "--split", "test")
    assert export_readers.nemo(alone)[0] == wanted(TEST)
    assert not (alone / "train").exists()


@pytest.mark.medium
def test_lhotse_gets_cuts_with_a_supervision(export, output):
    write_columns(output, "texts", {"text": ("string", lambda key: f"é {number(key)}"), "speaker": ("int", number)})
    target, _ = export("lhotse", "--columns", "texts", "--view", "often")
    found, cuts = export_readers.shar(target / "train")
    assert found == wanted(TRAIN, times)
    (supervision,) = cuts[0]["supervisions"]
    assert (supervision["text"], supervision["speaker"], supervision["start"]) == ("é 1", "1", 0.0)
    assert cuts[0]["custom"] == {"title": "Clip 1"}
    assert {cut["type"] for cut in cuts} == {"MonoCut"}
    assert (target / "train/cuts.000000.jsonl.gz").read_bytes()[4:8] == bytes(4)  # no time of writing


def test_energon_reads_a_view_without_repetitions_by_a_filter(export, output):
    target, said = export("energon", "--view", "some")
    assert said["num_linked"] == said["num_shards"] == 4
    assert export_readers.energon(target, "train") == wanted(TRAIN)
    assert export_readers.energon(target, "train", "some") == wanted(TRAIN, once)
    assert export_readers.energon(target, "test", "some") == wanted(TEST, once)
    joined, _ = export("energon", "--view", "often", "--columns", "levels")
    assert export_readers.energon(joined, "train") == wanted(TRAIN, times)
    assert not list((joined / ".nv-meta").glob("filter_*"))


def test_dali_gets_indexes_and_our_loader_reads_the_tars_as_well(export):
    target, _ = export("dali")
    assert export_readers.dali(target, "train") == wanted(TRAIN)
    assert len(list(target.glob("*.headrace.idx"))) == 4
    read = [sample["__key__"] for sample in StreamingDataset(remote=str(target), world=World(0, 1))]
    assert read == [clip.key for clip in (*TEST, *TRAIN)]
    often, _ = export("dali", "--view", "often")
    assert export_readers.dali(often, "train") == wanted(TRAIN, times)


def test_croissant_names_every_tar_by_its_digest_and_keeps_what_people_wrote(export):
    import hashlib

    target, _ = export("croissant")
    path = target / "croissant.json"
    described = json.loads(path.read_text())
    files = {file["contentUrl"]: file["sha256"] for file in described["distribution"] if "sha256" in file}
    assert files == {tar.name: hashlib.sha256(tar.read_bytes()).hexdigest() for tar in target.glob("*.tar")}
    assert {"conformsTo", "license", "creator", "datePublished", "version", "recordSet"} <= set(described)
    path.write_text(json.dumps({**described, "license": "https://spdx.org/licenses/CC0-1.0"}))
    export("croissant", "--split", "test")
    described = json.loads(path.read_text())
    assert described["license"].endswith("CC0-1.0")
    assert [file["name"] for file in described["distribution"]] == ["test_000000.tar", "flac-files"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", "nonsense"), "unknown; there are croissant, dali, energon"),
        (("--view", "nope"), "nope"),
        (("--columns", "nope"), "nope"),
        (("--latents", "nope"), "nope"),
        (("--split", "dev", "--to", "nemo"), "no split 'dev'"),
        (("--to", "nemo", "--latents", "crepe"), "--to webdataset or parquet"),
        (("--to", "lhotse", "--latents", "crepe"), "--to webdataset or parquet"),
        (("--to", "energon", "--view", "often"), "--to webdataset --view"),
    ],
)
def test_what_cannot_be_exported_is_an_error_and_writes_nothing(output, tmp_path, capsys, options, said):
    target = tmp_path / "out"
    assert main(["export", str(output), str(target), *options]) == 1
    assert said in capsys.readouterr().err
    assert not list(target.rglob("*")) if target.exists() else True


def test_latents_alone_have_no_audio_for_other_forms(output, tmp_path, capsys):
    assert main(["export", f"{output}/latents/crepe", str(tmp_path / "out"), "--to", "parquet"]) == 1
    assert "samples have no audio" in capsys.readouterr().err


@pytest.mark.parametrize("to", ["webdataset", "nemo", "parquet", "energon"])
def test_a_bucket_gets_the_same_files_as_a_folder(output, tmp_path, to):
    bucket = open_storage("memory://")
    source = LocalStorage(output / "audio")
    for split in (None, "train"):
        export_snapshot(source, bucket, to, Selection(split=split))
    export_snapshot(source, LocalStorage(tmp_path / "out"), to, Selection(split="train"))
    local = {
        path.relative_to(tmp_path / "out").as_posix(): path.read_bytes()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert {name: bucket.read(name) for name in local} == local
    there = {entry.path for entry in bucket.list()}
    assert there <= set(local) | {name for name in there if "/." in f"/{name}"}


def test_a_damaged_sample_is_an_error_that_names_it(output, tmp_path):
    import shutil

    copy = LocalStorage(shutil.copytree(output, tmp_path / "copy") / "audio")
    table = sorted(copy.root.glob("train_*.tar"))
    blob = bytearray(table[0].read_bytes())
    blob[600] ^= 1
    table[0].write_bytes(blob)
    with pytest.raises(IntegrityError):
        export_snapshot(copy, LocalStorage(tmp_path / "out"), "nemo")
    assert not list((tmp_path / "out").rglob("*.tar"))


def test_rows_of_a_view_are_those_of_its_counts(output):
    found = SelectedSamples(str(output / "audio"), str(output), Selection(view="often"))
    assert found.snapshot == read_snapshot(LocalStorage(output / "audio")).number
    rows = {name: list(numbers) for name, numbers in found.rows().items()}
    first = next(name for name in rows if name.startswith("train_0000_000000"))
    assert rows[first] == [1, 2, 2]


@pytest.mark.medium
def test_samples_of_a_bucket_are_exported_to_it(output, s3_server, monkeypatch, capsys, tmp_path):
    bucket = new_bucket(s3_server, monkeypatch)
    remote, local = open_storage(f"{bucket}/birds"), LocalStorage(output)
    for entry in local.list():
        remote.write(entry.path, local.read(entry.path))
    options = ("--to", "nemo", "--view", "often", "--columns", "levels")
    assert main(["export", f"{bucket}/birds", f"{bucket}/nemo", *options]) == 0, capsys.readouterr().err
    assert main(["export", str(output), str(tmp_path / "nemo"), *options]) == 0
    made = open_storage(f"{bucket}/nemo")
    files = [path for path in (tmp_path / "nemo").rglob("*") if path.is_file() and path.name[0] != "."]
    assert len(files) == 6
    for path in files:
        assert made.read(path.relative_to(tmp_path / "nemo").as_posix()) == path.read_bytes()


def test_columns_of_unknown_types_are_one_column_of_json_in_parquet(outputs, target):
    import pyarrow.parquet

    export_snapshot(outputs["small"], target, "parquet")
    table = pyarrow.parquet.read_table(target.root / "data/train-00000-of-00001.parquet")
    assert table.column_names == ["key", "audio", "metadata"]
    assert [json.loads(text) for text in table["metadata"].to_pylist()] == [{"title": f"Clip {i}"} for i in range(3)]


def test_users_columns_of_our_names_keep_their_values_in_parquet(tmp_path):
    import pyarrow.parquet

    write_dataset(tmp_path / "out", {"train": clips(3)})
    own = {"key": ("string", lambda key: "mine"), "title": ("string", lambda key: "t")}
    write_columns(tmp_path / "out", "metadata", own)
    write_columns(tmp_path / "out", "more", {"audio": ("int", number)})
    target = LocalStorage(tmp_path / "parquet")
    export_snapshot(LocalStorage(tmp_path / "out/audio"), target, "parquet", Selection(columns=("more",)))
    table = pyarrow.parquet.read_table(target.root / "data/train-00000-of-00001.parquet")
    assert table.column_names == ["key", "audio", "metadata.key", "title", "metadata.audio"]
    assert table["metadata.audio"].to_pylist() == [0, 1, 2]


def test_a_column_that_its_set_does_not_know_is_an_error(tmp_path):
    write_dataset(tmp_path / "out", {"train": clips(3)})
    write_columns(tmp_path / "out", "metadata", {"other": ("string", lambda key: "t")})
    with pytest.raises(FormatError, match="no column is called 'title'"):
        export_snapshot(LocalStorage(tmp_path / "out/audio"), LocalStorage(tmp_path / "parquet"), "parquet")


class Named(Clip):
    """A clip with a key that looks like that of a repetition."""

    @property
    def key(self):
        return ("a", "a-copy1", "b", "z-copy2", "z")[self.number]


@pytest.mark.medium
@pytest.mark.parametrize("to", ["webdataset", "parquet", "nemo", "lhotse", "dali", "croissant"])
@pytest.mark.parametrize("taken", [{}, {"a-copy1": 0, "z-copy2": 0}])
def test_a_repetition_is_not_called_like_another_sample(to, taken, tmp_path):
    named = [Named(clip.number, clip.num_frames) for clip in clips(5)]
    write_dataset(tmp_path / "birds", {"train": named}, per_shard=2)
    write_view(tmp_path / "birds", "often", lambda key: taken.get(key, 3 if key in {"a", "z"} else 1))
    source, target = LocalStorage(tmp_path / "birds/audio"), LocalStorage(tmp_path / "out")
    if taken:
        assert export_snapshot(source, target, to, Selection(view="often")).num_samples == 7
        return
    with pytest.raises(ConfigError, match=r"repeats sample 'a', and 'a-copy1'.* is another sample's key"):
        export_snapshot(source, target, to, Selection(view="often"))
    assert [*target.list()] == []
