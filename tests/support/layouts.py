"""Twelve and more layouts of corpora, each with six recordings and the texts of `tests.support.corpora.text`."""

import gzip
import io
import json
import tarfile

import polars as pl

from tests.support.corpora import NUM_UTTERANCES, build, folder_and_table, sound, text

NUMBERS = range(NUM_UTTERANCES)
RATE_HZ = 8000


def seconds(number):
    return (400 + 10 * number) / RATE_HZ


def _lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def _packed(path, objects):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{json.dumps(one)}\n" for one in objects).encode(), mtime=0))


def _tar(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def _bytes(root, number, extension="wav"):
    return sound(root.parent / "made", number, extension=extension).read_bytes()


def _recording(number, source, kind="file"):
    return {
        "id": f"rec-{number}", "sources": [{"type": kind, "channels": [0], "source": source}],
        "sampling_rate": RATE_HZ, "num_samples": 400 + 10 * number, "duration": seconds(number), "channel_ids": [0],
    }  # fmt: skip


def _supervision(number):
    return {
        "id": f"utt-{number}", "recording_id": f"rec-{number}", "start": 0, "duration": seconds(number),
        "channel": 0, "text": text(number),
    }  # fmt: skip


def _cut(number, recording):
    return {
        "id": f"cut-{number}", "start": 0, "duration": seconds(number), "channel": 0, "type": "MonoCut",
        "supervisions": [_supervision(number)], "recording": recording,
    }  # fmt: skip


def kaldi(root):
    _lines(root / "wav.scp", [f"utt-{number} {sound(root / 'wav', number)}" for number in NUMBERS])
    _lines(root / "text", [f"utt-{number} {text(number)}" for number in NUMBERS])
    _lines(root / "utt2spk", [f"utt-{number} anna" for number in NUMBERS])


def _nemo_row(number, folder="", **more):
    row = {"audio_filepath": f"{folder}utt-{number}.wav", "duration": seconds(number), "text": text(number), **more}
    return json.dumps(row)


def nemo(root):
    for number in NUMBERS:
        sound(root / "wav", number)
    _lines(root / "train_manifest.json", [_nemo_row(number, "wav/") for number in NUMBERS])


def nemo_tarred(root):
    _lines(root / "tarred_audio_manifest.json", [_nemo_row(number, shard_id=number % 2) for number in NUMBERS])
    for shard in (0, 1):
        names = [(f"utt-{number}.wav", _bytes(root, number)) for number in NUMBERS if number % 2 == shard]
        _tar(root / f"audio_{shard}.tar", names)


def lhotse(root):
    [sound(root / "wav", number) for number in NUMBERS]
    _packed(root / "x_recordings_all.jsonl.gz", [_recording(number, f"wav/utt-{number}.wav") for number in NUMBERS])
    _packed(root / "x_supervisions_all.jsonl.gz", [_supervision(number) for number in NUMBERS])


def lhotse_cuts(root):
    [sound(root / "wav", number) for number in NUMBERS]
    cuts = [_cut(number, _recording(number, f"wav/utt-{number}.wav")) for number in NUMBERS]
    _packed(root / "cuts_train.jsonl.gz", cuts)


def lhotse_shar(root):
    for shard in (0, 1):
        numbers = [number for number in NUMBERS if number % 2 == shard]
        cuts = [_cut(number, _recording(number, "", "shar")) for number in numbers]
        _packed(root / f"cuts.00000{shard}.jsonl.gz", cuts)
        about = {number: json.dumps(_recording(number, "", "shar")).encode() for number in numbers}
        members = [
            (f"cut-{number}.{end}", content)
            for number in numbers
            for end, content in (("wav", _bytes(root, number)), ("json", about[number]))
        ]
        _tar(root / f"recording.00000{shard}.tar", members)


def parquet(root):
    rows = {
        "audio": [{"bytes": _bytes(root, number), "path": f"utt-{number}.wav"} for number in NUMBERS],
        "sentence": [text(number) for number in NUMBERS],
    }
    (root / "data").mkdir(parents=True)
    pl.DataFrame(rows).write_parquet(root / "data/train-00000-of-00001.parquet")
    _lines(root / "README.md", ["about"])


def webdataset(root):
    members = [
        (f"utt-{number}.{end}", content)
        for number in NUMBERS
        for end, content in (("wav", _bytes(root, number)), ("json", json.dumps({"text": text(number)}).encode()))
    ]
    _tar(root / "shards/000000.tar", members[:6])
    _tar(root / "shards/000001.tar", members[6:])


def wenet_tars(root):
    members = [
        (f"utt.{number}.{end}", content)
        for number in NUMBERS
        for end, content in (("txt", text(number).encode()), ("wav", _bytes(root, number)))
    ]
    _tar(root / "shards_000000.tar", members)
    _lines(root / "data.list", [str(root / "shards_000000.tar")])


def headrace(root):
    build(root.parent, folder_and_table(root.parent / "first"))
    (root.parent / "output").rename(root)


def audiofolder(root):
    for part in ("train", "test"):
        numbers = [number for number in NUMBERS if (number % 3 > 0) == (part == "train")]
        rows = [f"clips/{sound(root / part / 'clips', number).name},{text(number)}" for number in numbers]
        _lines(root / part / "metadata.csv", ["file_name,text", *rows])


def ljspeech(root):
    rows = [f'{sound(root / "wavs", number).stem}|{text(number)}|"{text(number)}' for number in NUMBERS]
    _lines(root / "metadata.csv", rows)
    _lines(root / "README", ["about"])


def librispeech(root):
    for chapter in (0, 1):
        numbers = [number for number in NUMBERS if number % 2 == chapter]
        rows = [f"{sound(root / f'84/{chapter}', number, extension='flac').stem} {text(number)}" for number in numbers]
        _lines(root / f"84/{chapter}/84-{chapter}.trans.txt", rows)
    _lines(root / "SPEAKERS.TXT", ["84 | F | dev-clean | 8.02 | Christie Nowak"])


def voxceleb(root):
    for number in NUMBERS:
        sound(root / f"wav/id1000{number % 2}/video{number % 3}", number)


def birds(root):
    for number in NUMBERS:
        sound(root / f"Turdus merula {number % 2}", number)


def raven(root):
    head = "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tSpecies"
    for number in NUMBERS:
        name = sound(root, number).stem
        rows = [f"1\t{view} 1\t1\t0.0\t{seconds(number)}\t{text(number)}" for view in ("Waveform", "Spectrogram")]
        _lines(root / f"{name}.txt", [head, *rows])


def sidecars(root):
    for number in NUMBERS:
        path = sound(root / f"part{number % 2}", number)
        _lines(path.with_suffix(".json"), [json.dumps({"language": "en"})])
        _lines(path.with_suffix(".txt"), [text(number)])
    _lines(root / "LICENSE.txt", ["free"])


def wenet(root):
    paths = [str(sound(root.parent / "wavs/a", number)) for number in NUMBERS]
    rows = [{"key": f"utt.{number}", "wav": paths[number], "txt": text(number)} for number in NUMBERS]
    _lines(root / "data.list", map(json.dumps, rows))


def common_voice(root):
    rows = [f'id{number}\t{sound(root / "clips", number).name}\t"{text(number)}' for number in NUMBERS]
    head = "client_id\tpath\tsentence"
    for name, some in (("validated", rows), ("train", rows[:3]), ("test", rows[3:])):
        _lines(root / f"{name}.tsv", [head, *some])


def utterances(root):
    for number in NUMBERS:
        sound(root / "audio", number)
    rows = [f"audio/utt-{number}.wav,0,{seconds(number)},{text(number)}" for number in NUMBERS]
    _lines(root / "utterances.csv", ["path,start,end,text", *rows])


def plain(root):
    for number in NUMBERS:
        sound(root, number)
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
}
"""Function that writes the layout into a folder → its name."""
WITHOUT_TEXT = {voxceleb, birds, plain}
