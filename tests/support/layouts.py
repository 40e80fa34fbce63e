"""Writers of layouts of corpora. Each writes the same recordings and texts, by default the six of `SIX`."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from headrace.sources.kinds.crc32c import crc32c
from tests.support.corpora import NUM_UTTERANCES, RATE_HZ, build, folder_and_table, sound, text
from tests.support.tfrecords import example, write_records


@dataclass(frozen=True)
class Recordings:
    """The recordings that a layout has.

    Attributes:
        numbers: the recordings.
        sound: writes recording `number` into a folder as `utt-<number>.<extension>`; returns the path.
        text: its text, which no other has.
        num_frames: its length.
        rate_hz: its sample rate.
    """

    numbers: range
    sound: Callable[..., Path]
    text: Callable[[int], str]
    num_frames: Callable[[int], int]
    rate_hz: Callable[[int], int]

    def seconds(self, number):
        return self.num_frames(number) / self.rate_hz(number)

    def content(self, root, number, extension="wav"):
        return self.sound(root.parent / "made", number, extension=extension).read_bytes()


SIX = Recordings(range(NUM_UTTERANCES), sound, text, lambda number: 400 + 10 * number, lambda _: RATE_HZ)


def write_changed(path, content):
    """Write a file, unless it has this content: files of a layout that is written again stay as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def _lines(path, lines):
    write_changed(path, "".join(f"{line}\n" for line in lines).encode())


def _packed(path, objects):
    write_changed(path, gzip.compress("".join(f"{json.dumps(one)}\n" for one in objects).encode(), mtime=0))


def _tar(path, members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    write_changed(path, file.getvalue())


def _recording(made, number, source, kind="file"):
    return {
        "id": f"rec-{number}", "sources": [{"type": kind, "channels": [0], "source": source}],
        "sampling_rate": made.rate_hz(number), "num_samples": made.num_frames(number),
        "duration": made.seconds(number), "channel_ids": [0],
    }  # fmt: skip


def _supervision(made, number):
    return {
        "id": f"utt-{number}", "recording_id": f"rec-{number}", "start": 0, "duration": made.seconds(number),
        "channel": 0, "text": made.text(number),
    }  # fmt: skip


def _cut(made, number, recording):
    return {
        "id": f"cut-{number}", "start": 0, "duration": made.seconds(number), "channel": 0, "type": "MonoCut",
        "supervisions": [_supervision(made, number)], "recording": recording,
    }  # fmt: skip


def kaldi(root, made=SIX):
    _lines(root / "wav.scp", [f"utt-{number} {made.sound(root / 'wav', number)}" for number in made.numbers])
    _lines(root / "text", [f"utt-{number} {made.text(number)}" for number in made.numbers])
    _lines(root / "utt2spk", [f"utt-{number} anna" for number in made.numbers])


def _nemo_row(made, number, folder="", **more):
    named = {"audio_filepath": f"{folder}utt-{number}.wav", "duration": made.seconds(number)}
    return json.dumps({**named, "text": made.text(number), **more})


def nemo(root, made=SIX):
    for number in made.numbers:
        made.sound(root / "wav", number)
    _lines(root / "train_manifest.json", [_nemo_row(made, number, "wav/") for number in made.numbers])


def nemo_tarred(root, made=SIX):
    _lines(
        root / "tarred_audio_manifest.json", [_nemo_row(made, number, shard_id=number % 2) for number in made.numbers]
    )
    for shard in (0, 1):
        names = [(f"utt-{number}.wav", made.content(root, number)) for number in made.numbers if number % 2 == shard]
        _tar(root / f"audio_{shard}.tar", names)


def lhotse(root, made=SIX):
    [made.sound(root / "wav", number) for number in made.numbers]
    _packed(
        root / "x_recordings_all.jsonl.gz",
        [_recording(made, number, f"wav/utt-{number}.wav") for number in made.numbers],
    )
    _packed(root / "x_supervisions_all.jsonl.gz", [_supervision(made, number) for number in made.numbers])


def lhotse_cuts(root, made=SIX):
    [made.sound(root / "wav", number) for number in made.numbers]
    cuts = [_cut(made, number, _recording(made, number, f"wav/utt-{number}.wav")) for number in made.numbers]
    _packed(root / "cuts_train.jsonl.gz", cuts)


def lhotse_shar(root, made=SIX):
    for shard in (0, 1):
        numbers = [number for number in made.numbers if number % 2 == shard]
        cuts = [_cut(made, number, _recording(made, number, "", "shar")) for number in numbers]
        _packed(root / f"cuts.00000{shard}.jsonl.gz", cuts)
        about = {number: json.dumps(_recording(made, number, "", "shar")).encode() for number in numbers}
        members = [
            (f"cut-{number}.{end}", content)
            for number in numbers
            for end, content in (("wav", made.content(root, number)), ("json", about[number]))
        ]
        _tar(root / f"recording.00000{shard}.tar", members)


def parquet(root, made=SIX):
    rows = {
        "audio": [{"bytes": made.content(root, number), "path": f"utt-{number}.wav"} for number in made.numbers],
        "sentence": [made.text(number) for number in made.numbers],
    }
    file = io.BytesIO()
    pl.DataFrame(rows).write_parquet(file)
    write_changed(root / "data/train-00000-of-00001.parquet", file.getvalue())
    _lines(root / "README.md", ["about"])


def webdataset(root, made=SIX):
    about = {number: json.dumps({"text": made.text(number)}).encode() for number in made.numbers}
    members = [
        (f"utt-{number}.{end}", content)
        for number in made.numbers
        for end, content in (("wav", made.content(root, number)), ("json", about[number]))
    ]
    _tar(root / "shards/000000.tar", members[:6])
    _tar(root / "shards/000001.tar", members[6:])


def wenet_tars(root, made=SIX):
    members = [
        (f"utt.{number}.{end}", content)
        for number in made.numbers
        for end, content in (("txt", made.text(number).encode()), ("wav", made.content(root, number)))
    ]
    _tar(root / "shards_000000.tar", members)
    _lines(root / "data.list", [str(root / "shards_000000.tar")])


def tfrecord(root, made=SIX):
    root.mkdir(parents=True, exist_ok=True)
    records = [
        example({"audio": [made.content(root, number)], "text": [made.text(number).encode()]})
        for number in made.numbers
    ]
    for shard in (0, 1):
        write_records(root / f"speech-train.tfrecord-0000{shard}-of-00002", records[shard::2], crc32c)


def headrace(root):
    build(root.parent, folder_and_table(root.parent / "first"))
    (root.parent / "output").rename(root)


def audiofolder(root, made=SIX):
    for part in ("train", "test"):
        numbers = [number for number in made.numbers if (number % 3 > 0) == (part == "train")]
        rows = [f"clips/{made.sound(root / part / 'clips', number).name},{made.text(number)}" for number in numbers]
        _lines(root / part / "metadata.csv", ["file_name,text", *rows])


def ljspeech(root, made=SIX):
    stems = {number: made.sound(root / "wavs", number).stem for number in made.numbers}
    rows = [f'{stem}|{made.text(number)}|"{made.text(number)}' for number, stem in stems.items()]
    _lines(root / "metadata.csv", rows)
    _lines(root / "README", ["about"])


def librispeech(root, made=SIX):
    for chapter in (0, 1):
        numbers = [number for number in made.numbers if number % 2 == chapter]
        folder = root / f"84/{chapter}"
        stems = {number: made.sound(folder, number, extension="flac").stem for number in numbers}
        rows = [f"{stem} {made.text(number)}" for number, stem in stems.items()]
        _lines(root / f"84/{chapter}/84-{chapter}.trans.txt", rows)
    _lines(root / "SPEAKERS.TXT", ["84 | F | dev-clean | 8.02 | Christie Nowak"])


def voxceleb(root, made=SIX):
    for number in made.numbers:
        made.sound(root / f"wav/id1000{number % 2}/video{number % 3}", number)


def birds(root, made=SIX):
    for number in made.numbers:
        made.sound(root / f"Turdus merula {number % 2}", number)


def raven(root, made=SIX):
    head = "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tSpecies"
    for number in made.numbers:
        name = made.sound(root, number).stem
        event = f"1\t0.0\t{made.seconds(number)}\t{made.text(number)}"
        rows = [f"1\t{view} 1\t{event}" for view in ("Waveform", "Spectrogram")]
        _lines(root / f"{name}.txt", [head, *rows])


def sidecars(root, made=SIX):
    for number in made.numbers:
        path = made.sound(root / f"part{number % 2}", number)
        _lines(path.with_suffix(".json"), [json.dumps({"language": "en"})])
        _lines(path.with_suffix(".txt"), [made.text(number)])
    _lines(root / "LICENSE.txt", ["free"])


def wenet(root, made=SIX):
    paths = [str(made.sound(root.parent / "wavs/a", number)) for number in made.numbers]
    rows = [{"key": f"utt.{number}", "wav": paths[number], "txt": made.text(number)} for number in made.numbers]
    _lines(root / "data.list", map(json.dumps, rows))


def common_voice(root, made=SIX):
    rows = [f'id{number}\t{made.sound(root / "clips", number).name}\t"{made.text(number)}' for number in made.numbers]
    head = "client_id\tpath\tsentence"
    for name, some in (("validated", rows), ("train", rows[:3]), ("test", rows[3:])):
        _lines(root / f"{name}.tsv", [head, *some])


def utterances(root, made=SIX):
    for number in made.numbers:
        made.sound(root / "audio", number)
    rows = [f"audio/utt-{number}.wav,0,{made.seconds(number)},{made.text(number)}" for number in made.numbers]
    _lines(root / "utterances.csv", ["path,start,end,text", *rows])


def plain(root, made=SIX):
    for number in made.numbers:
        made.sound(root, number)
    _lines(root / "notes.md", ["about"])


LAYOUTS = {
    kaldi: "Kaldi data directory",
    nemo: "NeMo manifest",
    nemo_tarred: "tarred NeMo manifest",
    lhotse: "Lhotse recordings and supervisions",
    lhotse_cuts: "Lhotse cuts",
    lhotse_shar: "Lhotse Shar",
    parquet: "Parquet with a column of audio",
    webdataset: "WebDataset tars",
    wenet_tars: "WebDataset tars",
    headrace: "output of Headrace",
    audiofolder: "Hugging Face audiofolder",
    ljspeech: "LJSpeech",
    librispeech: "LibriSpeech",
    voxceleb: "folders as labels",
    birds: "folders as labels",
    raven: "Raven selection tables",
    sidecars: "recordings with sidecars",
    wenet: "WeNet list",
    common_voice: "table of recordings",
    utterances: "table of recordings",
    plain: "folder of recordings",
    tfrecord: "TFRecord files",
}
"""Function that writes the layout into a folder → its name."""
WITHOUT_TEXT = {voxceleb, birds, plain}
