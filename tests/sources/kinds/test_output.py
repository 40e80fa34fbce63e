"""Snapshots, views and splits of another output as a source."""

from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from headrace import StreamingDataset
from headrace.assemble.column_sets import bring_columns_up_to_date
from headrace.config.dataset import parse_config
from headrace.errors import ConfigError
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.beside.view_files import ViewOrigin, commit_view, partitions_of
from headrace.format.beside.views import PartitionCounts, ViewDefinition
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.sources.kinds.output import OutputItems, OutputOptions
from headrace.sources.sources import open_corpus
from headrace.stores.storage import open_storage
from headrace.testing import CorpusContract
from headrace.testing.corpus_contract import Change
from tests.support.corpora import NUM_UTTERANCES, RATE_HZ, KindBuilds, build, folder_and_table, sound, write_sound
from tests.support.onnx_models import SPEECH

pytestmark = pytest.mark.medium


def listed(uri, **options):
    chunks = open_corpus("headrace", str(uri), options).list()
    return [path for chunk in chunks for path in chunk.path]


def rows_of(uri, **options):
    return list(open_corpus("headrace", str(uri), options).rows().read())


class TestOutput(KindBuilds, CorpusContract):
    kind = "headrace"
    can_spoil = False  # a shard has no recording that cannot be used

    def uri(self, folder):
        return str(folder / "first/output")

    def write(self, folder):
        self.form = folder_and_table(folder / "first")
        self.rebuild(folder)

    def rebuild(self, folder):
        build(folder / "first", self.form)

    def change(self, folder):
        before = {row["id"]: row["path"] for row in rows_of(self.uri(folder))}
        sound(folder / "first/plain", 1, seed=100)
        self.rebuild(folder)
        shard = before["utt-1"].rpartition("/")[0]
        return Change(before["utt-1"], frozenset(path for path in before.values() if path.startswith(shard)))

    def retext(self, folder):
        table = folder / "first/table.csv"
        table.write_text(table.read_text().replace("text 2", "other"))
        self.rebuild(folder)

    def harm(self, folder):
        return {}

    def test_the_provenance_of_samples_is_kept(self, tmp_path):
        self.write(tmp_path)
        found = build(tmp_path, self.source(tmp_path))
        for key, sample in found.samples.items():
            assert sample["metadata"]["provenance"]["source"] == f"{key}.wav"
            assert sample["metadata"]["headrace"]["source"].endswith(f"/{key}.flac")


def test_the_first_provenance_stays_through_generations_and_nothing_is_lost(tmp_path):
    write_sound(tmp_path / "0/corpus/a.wav", 1)
    (tmp_path / "0/t.csv").write_text("path,provenance,own_provenance\na.wav,mine,mine too\n")
    found = build(tmp_path / "0", {"uri": str(tmp_path / "0/corpus"), "metadata": str(tmp_path / "0/t.csv")})
    sources = ["a.wav"]
    for generation in range(1, 5):
        found = build(tmp_path / str(generation), {"kind": "headrace", "uri": found.remote})
        ((_, sample),) = found.samples.items()
        about = sample["metadata"]
        names = ["own_" * count + "provenance" for count in range(generation + 2)]
        first, *between = [about[name] for name in names]
        assert first["source"] == "a.wav"
        assert [one["source"] for one in between[: generation - 1]] == sources[:0:-1]
        assert between[generation - 1 :] == ["mine", "mine too"]
        sources.append(about["headrace"]["source"])


class TestSeveralOutputs(TestOutput):
    """The recordings of even numbers are in one output, the others in another one, which is in a list of a YAML."""

    def uri(self, folder):
        return f"{folder / 'even'},{folder / 'odd'}"

    def source(self, folder):
        return {**super().source(folder), "uri": [str(folder / "even"), str(folder / "odd")]}

    def write(self, folder):
        self.form = folder_and_table(folder / "first")
        self.rebuild(folder)

    def rebuild(self, folder):
        for parity, name in enumerate(("even", "odd")):
            chosen = ", ".join(f"'utt-{number}'" for number in range(parity, NUM_UTTERANCES, 2))
            source = {**self.form, "where": f"id IN ({chosen})"}
            build(folder / f"made-{name}", source, output={"uri": str(folder / name)})


@pytest.fixture
def output(tmp_path):
    """An output with two snapshots and a view of the second one, which takes every second sample."""
    source = folder_and_table(tmp_path / "first")
    build(tmp_path / "first", source, splits={"train": 0.5, "test": 0.5}, shards={"samples_per_shard": 2})
    write_sound(tmp_path / "first/plain/more.wav", 50)
    with (tmp_path / "first/table.csv").open("a") as table:
        table.write("more.wav,more,more\n")
    build(tmp_path / "first", source, splits={"train": 0.5, "test": 0.5}, shards={"samples_per_shard": 2})
    return tmp_path / "first/output"


def test_a_snapshot_and_a_split_choose_samples(output):
    assert len(listed(output)) == NUM_UTTERANCES + 1
    assert len(listed(output, snapshot=1)) == NUM_UTTERANCES
    splits = [listed(output, split=split) for split in ("train", "test")]
    assert sorted([*splits[0], *splits[1]]) == sorted(listed(output))
    assert all(path.startswith("test-") for path in splits[1])


def test_a_view_chooses_samples_each_of_which_is_one_recording(output):
    audio = read_snapshot(open_storage(str(output / "audio")))
    table = read_table(open_storage(str(output / "audio")), audio.snapshot)
    parts = []
    for partition, rows in partitions_of(table):
        num_samples = table.num_samples[rows]
        counts = (np.arange(num_samples.sum()) % 2 * 3).astype(np.uint8)
        parts.append(PartitionCounts(partition, num_samples, counts))
    folder = open_storage(str(output / "views/odd"))
    commit_view(folder, ViewOrigin(ViewDefinition("odd"), audio, table), parts)
    chosen = listed(output, view="odd")
    assert len(chosen) == sum(int(np.count_nonzero(part.counts)) for part in parts)
    assert chosen == [row["path"] for row in rows_of(output, view="odd")]
    assert set(listed(output, view="odd", split="test")) == {path for path in chosen if path.startswith("test-")}
    with pytest.raises(ConfigError, match="no snapshot of a view 'odd' of the audio snapshot 1"):
        listed(output, view="odd", snapshot=1)


class Tag:
    """A feature with a column that has the name of one of the metadata."""

    columns, fingerprint = {"text": "text", "size": "int"}, "1"

    def __init__(self, tag):
        self.tag = tag

    def __call__(self, audio, _):
        return {"text": self.tag, "size": audio.shape[1]}


VAD = {"name": "vad", "kind": "speech", "file": str(SPEECH), "min_speech_seconds": 0, "padding_seconds": 0}
TAGS = [{"name": n, "kind": "custom", "feature": "tests.sources.kinds.test_output:Tag", "tag": n} for n in ("a", "b")]


def _with_features(folder, *features):
    """An output of loud and silent parts, with columns of features."""
    source = folder_and_table(folder / "first")
    for number in range(NUM_UTTERANCES):
        loud = number % 2
        level = np.repeat(np.array([loud] * 3 + [0] * 9 + [1 - loud] * 4) * 0.6, 256)
        soundfile.write(folder / f"first/plain/utt-{number}.wav", level, RATE_HZ, subtype="PCM_16")
    return _built_with_features(folder / "first", source, *features)


def _built_with_features(folder, source, *features):
    build(folder, source)
    output = folder / "output"
    content = {"source": source, "features": features, "splits": {"train": 1.0}, "shards": {"partitions": {"train": 2}}}
    config = parse_config({**content, "output": {"uri": str(output)}}, "mine", folder)
    for name in config.column_sets:
        bring_columns_up_to_date(open_storage(str(output)), config, name)
    return output


def test_columns_of_all_sets_come_with_the_rows(tmp_path):
    output = _with_features(tmp_path, VAD)
    audio = open_storage(str(output / "audio"))
    snapshot, expected = read_snapshot(audio).snapshot, {}
    columns = fitting_columns(open_storage(str(output / "columns/vad")), snapshot)
    for shard in read_table(audio, snapshot).names():
        told = columns.read(shard).column("speech").take(range(len(keys := read_index(audio, shard).keys())))
        expected |= zip(keys, told, strict=True)
    assert {row["id"]: row["speech"] for row in rows_of(output)} == expected
    assert all({"text", "speech_share"} < row.keys() for row in rows_of(output))


def test_intervals_of_one_data_set_are_the_rows_of_another(tmp_path):
    output = _with_features(tmp_path, VAD)
    spoken = [(row["text"], one["start"], one["end"]) for row in rows_of(output) for one in row["speech"]]
    found = build(tmp_path, {"kind": "headrace", "uri": str(output), "rows": "speech"})
    assert (len(found.samples), found.rejects) == (len(spoken), {})
    assert len(spoken) == NUM_UTTERANCES
    samples = [(one["metadata"]["text"], one["audio"]) for one in found.samples.values()]
    lengths = {(text, round((end - start) * RATE_HZ)) for text, start, end in spoken}
    assert {(text, audio.shape[-1]) for text, audio in samples} == lengths
    assert all((audio.abs() > 0.5).float().mean() > 0.7 for _, audio in samples)


def test_columns_of_one_name_have_the_name_of_their_set(tmp_path):
    """`text` of the metadata stays."""
    output = _with_features(tmp_path, *TAGS, VAD)
    row = next(row for row in rows_of(output) if row["text"] == "text 2")
    assert [row[name] for name in ("text_a", "text_b", "size_a", "size_b")] == ["a", "b", 4096, 4096]
    assert not {"size", "text_vad", "speech_vad"} & row.keys()


def test_a_feature_that_the_other_output_has_too_is_read_where_the_json_has_no_metadata(tmp_path):
    """Measurements of a whole sample are in the JSON of its intervals."""
    levels = {"name": "lv", "kind": "levels"}
    first = _with_features(tmp_path, levels, VAD)
    source = {"kind": "headrace", "uri": str(first), "rows": "speech"}
    output = _built_with_features(tmp_path / "second", source, levels)
    with pytest.raises(ConfigError, match=r"'peak_dbfs' of the set 'lv' is also in the JSON .*source.json: minimal"):
        StreamingDataset(remote=str(output), batch_size=1, columns=["lv"])
    output = _built_with_features(tmp_path / "third", source | {"json": "minimal"}, levels)
    for sample in StreamingDataset(remote=str(output), batch_size=1, columns=["lv"]):
        peak = 20 * np.log10(float(sample["audio"].abs().max()))
        assert sample["metadata"]["peak_dbfs"] == pytest.approx(peak, abs=0.01)


def test_two_columns_that_would_have_one_name_are_an_error():
    def columns(*names):
        return SimpleNamespace(specs=[SimpleNamespace(name=name, is_fact=False) for name in names])

    items = OutputItems("/made", 1, None, OutputOptions())
    vars(items)["_sets"] = {"metadata": columns("score", "score_vad"), "vad": columns("score")}
    with pytest.raises(ConfigError, match=r"'score' of 'vad' and column 'score_vad' of 'metadata' .*'score_vad'"):
        items._columns  # noqa: B018 - a property


def test_new_columns_are_a_change_of_the_source(tmp_path):
    output = _with_features(tmp_path, VAD)
    before = set(open_corpus("headrace", str(output), {}).rows().stamps())
    _with_features(tmp_path, {**VAD, "threshold": 0.7})
    after = set(open_corpus("headrace", str(output), {}).rows().stamps())
    assert len(after - before) == 1
    assert all("columns/vad" in name for name in after ^ before)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"view": "gone"}, "no snapshot of a view 'gone'"), ({"split": "gone"}, "no split 'gone'; it has test, train")],
)
def test_a_choice_that_is_not_there_is_an_error(output, options, said):
    with pytest.raises(ConfigError, match=said):
        listed(output, **options)


def test_a_folder_without_snapshots_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="expected an output of Headrace"):
        listed(tmp_path)


@pytest.mark.parametrize("form", ["{0}", "{0}/", "{0}/../output", "{1}/link", "file://{0}", "{1}/other,{0}"])
def test_an_output_is_not_its_own_source(tmp_path, form):
    itself = build(tmp_path, folder_and_table(tmp_path)).remote
    build(tmp_path, folder_and_table(tmp_path), output={"uri": str(tmp_path / "other")})
    (tmp_path / "link").symlink_to(itself)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=r"source\.uri .*output\.uri is the same folder.*a place of its own"):
        build(tmp_path, {"kind": "headrace", "uri": form.format(itself, tmp_path)})
    assert sorted(tmp_path.rglob("*")) == before
