"""Manifests of Lhotse, from the YAML to samples."""

import gzip
import io
import json
import tarfile
from typing import ClassVar

import pytest

from headrace.catalog.compared.type_changes import column_types
from headrace.catalog.stored.parts import existing_catalog
from headrace.errors import ConfigError
from headrace.sources.sources import open_corpus
from headrace.stores.storage import open_storage
from headrace.testing import CorpusContract
from headrace.testing.corpus_contract import Change
from tests.support.corpora import NUM_UTTERANCES, KindBuilds, build, sound, text, write_sound

NUMBERS = range(NUM_UTTERANCES)


def write_manifest(path, objects):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(content)}\n" for content in objects).encode()
    path.write_bytes(gzip.compress(lines, mtime=0) if path.suffix == ".gz" else lines)


def recording(name, path, *, frames=400, channels=1, kind="file"):
    ids = list(range(channels))
    sources = [{"type": kind, "channels": ids, "source": str(path)}]
    return {
        "id": name, "sources": sources, "sampling_rate": 8000, "num_samples": frames, "duration": frames / 8000,
        "channel_ids": ids,
    }  # fmt: skip


def supervision(name, of, start, seconds, **more):
    return {"id": name, "recording_id": of, "start": start, "duration": seconds, "channel": 0, **more}


def cut(name, of, start, seconds, *supervisions, **more):
    return {
        "id": name, "start": start, "duration": seconds, "channel": 0, "supervisions": list(supervisions),
        "recording": of, "type": "MonoCut", **more,
    }  # fmt: skip


def rows_of(uri, **options):
    return list(open_corpus("lhotse", str(uri), options).rows().read())


def faults_of(uri):
    chunks = open_corpus("lhotse", str(uri), {}).list()
    entries = [entry for chunk in chunks for entry in zip(chunk.path, chunk.code, chunk.reason, strict=True)]
    return {path: reason for path, code, reason in entries if code is not None}


class _Lhotse(KindBuilds, CorpusContract):
    kind = "lhotse"

    def write(self, folder):
        for number in NUMBERS:
            sound(folder / "corpus/wav", number)
        self.texts = {number: text(number) for number in NUMBERS}
        self.write_manifests(folder)

    def recordings(self):
        return [recording(f"rec-{number}", f"wav/utt-{number}.wav", frames=400 + 10 * number) for number in NUMBERS]

    def supervision(self, number):
        return supervision(f"utt-{number}", f"rec-{number}", 0, (400 + 10 * number) / 8000, text=self.texts[number])

    def change(self, folder):
        sound(folder / "corpus/wav", 1, seed=100)
        return Change("wav/utt-1.wav")

    def spoil(self, folder):
        (folder / "corpus/wav/utt-1.wav").write_bytes(b"no sound")

    def retext(self, folder):
        self.texts[2] = "other"
        self.write_manifests(folder)

    def harm(self, folder):
        self.write_manifests(
            folder, recording("bad", "touch /tmp/never", kind="command"), recording("gone", "gone.wav")
        )
        return {f"{self.name}#bad": "unreadable", "gone.wav": "unreadable"}


class TestRecordings(_Lhotse):
    name = "my_recordings_train.jsonl.gz"

    def write_manifests(self, folder, *more):
        write_manifest(folder / "corpus" / self.name, [*self.recordings(), *more])
        said = [self.supervision(number) for number in NUMBERS]
        write_manifest(folder / "corpus/my_supervisions_train.jsonl.gz", said)


class TestSupervisionsAsColumns(TestRecordings):
    options: ClassVar[dict] = {"supervisions": "columns"}


class TestCuts(_Lhotse):
    name = "cuts.jsonl"

    def uri(self, folder):
        return str(folder / "corpus/cuts.jsonl")

    def write_manifests(self, folder, *more):
        pairs = [(number, whole) for number, whole in zip(NUMBERS, self.recordings(), strict=True)]
        cuts = [cut(f"c-{number}", whole, 0, whole["duration"], self.supervision(number)) for number, whole in pairs]
        cuts += [cut(whole["id"], whole, 0, 1) for whole in more]
        write_manifest(folder / "corpus/cuts.jsonl", cuts)


class TestShar(_Lhotse):
    """Two shards of cuts, each with a tar of recordings."""

    def write(self, folder):
        self.sounds = {number: sound(folder / "made", number).read_bytes() for number in NUMBERS}
        self.texts = {number: text(number) for number in NUMBERS}
        self.write_shards(folder, 0, 1)

    def write_shards(self, folder, *shards):
        (folder / "corpus").mkdir(exist_ok=True, parents=True)
        for shard in shards:
            numbers = [number for number in NUMBERS if number % 2 == shard]
            whole = {number: recording(f"r{number}", "", frames=400 + 10 * number, kind="shar") for number in numbers}
            with tarfile.open(folder / f"corpus/recording.00000{shard}.tar", "w") as tar:
                for number in numbers:
                    members = {
                        f"c-{number}.wav": self.sounds[number],
                        f"c-{number}.json": json.dumps(whole[number]).encode(),
                    }
                    for name, content in members.items():
                        info = tarfile.TarInfo(name)
                        info.size = len(content)
                        tar.addfile(info, io.BytesIO(content))
            cuts = [
                cut(f"c-{number}", whole[number], 0, whole[number]["duration"], self.supervision(number))
                for number in numbers
            ]
            write_manifest(folder / f"corpus/cuts.00000{shard}.jsonl.gz", cuts)

    def change(self, folder):
        self.sounds[1] = sound(folder / "made", 1, seed=100).read_bytes()
        self.write_shards(folder, 1)
        path = "recording.000001.tar/c-{}.wav"
        return Change(path.format(1), frozenset({path.format(3), path.format(5)}))

    def spoil(self, folder):
        self.sounds[1] = b"no sound"
        self.write_shards(folder, 1)

    def retext(self, folder):
        self.texts[2] = "other"
        self.write_shards(folder, 0)

    def harm(self, folder):
        with gzip.open(folder / "corpus/cuts.000001.jsonl.gz", "a") as file:
            file.write(json.dumps(cut("lost", None, 0, 1)).encode())
        return {"recording.000001.tar#lost": "unreadable"}


def test_supervisions_are_spans_relative_to_their_cut_or_recording(tmp_path):
    write_sound(tmp_path / "long.wav", 1, frames=8000)
    whole = recording("rec", "long.wav", frames=8000)
    said = [supervision("a", "rec", 0.25, 0.125, text="a"), supervision("b", "rec", -0.125, 0.25, text="b")]
    write_manifest(tmp_path / "recordings.jsonl", [whole])
    write_manifest(tmp_path / "supervisions.jsonl", said)
    spans = {row["id"]: (row["start"], row["duration"]) for row in rows_of(tmp_path)}
    assert spans == {"a": (0.25, 0.125), "b": (0.0, 0.125)}
    write_manifest(tmp_path / "cuts.jsonl", [cut("c", whole, 0.5, 0.25, *said)])
    spans = {row["id"]: (row["start"], row["duration"]) for row in rows_of(tmp_path, supervisions="rows")}
    assert spans == {"a": (0.75, 0.125), "b": (0.375, 0.25)}
    (row,) = rows_of(tmp_path)
    assert (row["id"], row["start"], row["duration"], row["text"]) == ("c", 0.5, 0.25, "b a")
    assert [(item["id"], item["start"], item["end"]) for item in row["supervisions"]] == [
        ("b", 0.0, 0.125),
        ("a", 0.25, 0.25),
    ]


def test_columns_alignments_and_own_values_come_along(tmp_path):
    write_sound(tmp_path / "a.wav", 1, frames=4000)
    about = {"text": "hi you", "speaker": "ann", "language": "en", "gender": "F"}
    aligned = {"word": [["hi", 0.125, 0.0625, 0.5], ["you", 0.25, 0.125, None]]}
    own = {
        "snr": 12.5,
        "path": "mine",
        "alignment_word": "mine",
        "own_path": "too",
        "target": recording("x", "x.wav"),
        "codes": {"storage_path": "codes"},
    }
    said = supervision("u/1", "rec", 0.125, 0.25, alignment=aligned, custom=own, **about)
    write_manifest(tmp_path / "recordings.jsonl", [recording("rec", "a.wav", frames=4000)])
    write_manifest(tmp_path / "supervisions.jsonl", [said])
    found = build(tmp_path, {"kind": "lhotse", "uri": "*.jsonl"})
    ((key, sample),) = found.samples.items()
    values = sample["metadata"]
    assert key.startswith("u_1-")
    assert {name: values[name] for name in about} == about
    assert (values["id"], values["snr"], values["own_path"]) == ("u/1", 12.5, "mine")
    assert (values["own_alignment_word"], values["own_own_path"]) == ("mine", "too")
    assert [(item["symbol"], item["start"], item["end"]) for item in values["alignment_word"]] == [
        ("hi", 0.0, 0.0625),
        ("you", 0.125, 0.25),
    ]
    assert not {"target", "codes"} & values.keys()


def test_alignments_of_a_row_that_would_begin_before_its_recording_begin_with_it(tmp_path):
    write_sound(tmp_path / "a.wav", 1, frames=4000)
    said = supervision("u", "rec", -0.25, 0.5, alignment={"word": [["hi", 0.125, 0.0625]]})
    write_manifest(tmp_path / "cuts.jsonl", [cut("c", recording("rec", "a.wav", frames=4000), 0.125, 0.25, said)])
    (row,) = rows_of(tmp_path, supervisions="rows")
    assert (row["start"], row["duration"]) == (0.0, 0.375)
    assert row["alignment_word"] == [{"start": 0.25, "end": 0.3125, "symbol": "hi"}]


def test_supervisions_as_a_column_may_be_the_rows(tmp_path):
    write_sound(tmp_path / "a.wav", 1, frames=4000)
    said = [supervision(f"u{n}", "rec", 0.1 * n, 0.1, text=f"text {n}") for n in range(2)]
    write_manifest(tmp_path / "recordings.jsonl", [recording("rec", "a.wav", frames=4000)])
    write_manifest(tmp_path / "supervisions.jsonl", said)
    asked = {"kind": "lhotse", "uri": "*.jsonl", "options": {"supervisions": "columns"}, "rows": "supervisions"}
    samples = build(tmp_path, asked).samples
    found = {key[key.rindex("-f") :]: sample["metadata"]["text"] for key, sample in samples.items()}
    assert found == {"-f0-800": "text 0", "-f800-1600": "text 1"}


def test_supervisions_as_a_column_are_intervals_within_their_cut(tmp_path):
    write_sound(tmp_path / "a.wav", 1, frames=4000)
    spans = [(-0.1, 0.2), (0.4, 1), (2, 1)]
    said = [supervision(f"u{n}", "rec", start, length) for n, (start, length) in enumerate(spans)]
    write_manifest(tmp_path / "cuts.jsonl", [cut("c", recording("rec", "a.wav", frames=4000), 0, 0.5, *said)])
    found = build(tmp_path, {"kind": "lhotse", "uri": "cuts.jsonl"})
    (sample,) = found.samples.values()
    times = [(one["start"], one["end"]) for one in sample["metadata"]["supervisions"]]
    assert times == [(0.0, 0.1), (0.4, 0.5), (0.5, 0.5)]
    assert column_types(existing_catalog(open_storage(str(tmp_path / "output"))))["supervisions"] == "intervals"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sources": [{"type": "command", "channels": [0], "source": "cat a.wav"}]}, "commands are not run"),
        ({"sources": [{"type": "url", "channels": [0], "source": "https://example.org/a.wav"}]}, "only files are read"),
        ({"sources": [{"type": "memory", "channels": [0], "source": "UklGRg=="}]}, "only files are read"),
        ({"sources": [{"type": "file", "channels": [n], "source": "a.wav"} for n in (0, 1)]}, "expected one source"),
        ({"transforms": [{"name": "Speed", "kwargs": {"factor": 0.9}}]}, "transforms, which are not applied"),
    ],
)
def test_a_recording_that_is_not_one_file_is_rejected_with_a_reason(tmp_path, change, said):
    write_sound(tmp_path / "a.wav", 1)
    broken = {**recording("bad", "a.wav"), **change}
    write_manifest(tmp_path / "recordings.jsonl", [recording("good", "a.wav"), broken])
    assert {path: said in reason for path, reason in faults_of(tmp_path).items()} == {"recordings.jsonl#bad": True}
    write_manifest(tmp_path / "cuts.jsonl", [cut("bad", broken, 0, 0.05)])
    assert {path: said in reason for path, reason in faults_of(tmp_path).items()} == {"cuts.jsonl#bad": True}


def test_a_mixed_cut_is_a_reject(tmp_path):
    write_sound(tmp_path / "a.wav", 1)
    mixed = {"id": "m", "type": "MixedCut", "tracks": []}
    write_manifest(tmp_path / "cuts.jsonl", [cut("c", recording("r", "a.wav"), 0, 0.05), mixed])
    found = build(tmp_path, {"kind": "lhotse", "uri": "cuts.jsonl"})
    assert set(found.samples) == {"c"}
    assert found.rejects == {"cuts.jsonl#m": "file_rejected"}


def test_channels_are_given_where_the_recording_has_others(tmp_path):
    write_sound(tmp_path / "a.wav", 1, channels=2)
    both = recording("r", "a.wav", channels=2)
    cuts = [cut("one", both, 0, 0.05, channel=1), cut("all", both, 0, 0.05, channel=[0, 1])]
    write_manifest(tmp_path / "cuts.jsonl", cuts)
    assert [row.get("channel") for row in rows_of(tmp_path)] == [1, None]
    found = build(tmp_path, {"kind": "lhotse", "uri": "cuts.jsonl"})
    assert {key: sample["audio"].shape[0] for key, sample in found.samples.items()} == {"one": 1, "all": 2}


@pytest.mark.medium
def test_a_supervision_of_an_unknown_recording_is_a_rejected_row(tmp_path):
    write_sound(tmp_path / "a.wav", 1)
    write_manifest(tmp_path / "recordings.jsonl", [recording("r", "a.wav")])
    write_manifest(tmp_path / "supervisions.jsonl", [supervision(name, name, 0, 0.05) for name in ("r", "s")])
    found = build(tmp_path, {"kind": "lhotse", "uri": str(tmp_path)})
    assert found.rejects == {"recording#s": "metadata_without_file"}


@pytest.mark.parametrize(
    ("content", "said"),
    [([{"a": 1}], "neither recordings, supervisions nor cuts"), ([], "neither recordings nor cuts")],
)
def test_other_json_lines_are_an_error(tmp_path, content, said):
    write_manifest(tmp_path / "x.jsonl", content)
    with pytest.raises(ConfigError, match=said):
        rows_of(tmp_path)
