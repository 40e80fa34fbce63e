"""Each kind with 100,000 rows: all are listed once, and each row names a recording of the listing."""

import gzip
import json
import wave

import numpy as np
import polars as pl
import pytest

from headrace.sources.sources import open_corpus
from tests.sources.kinds.test_webdataset import write_tar
from tests.support.tfrecords import example, record

NUM_ROWS, TO_A_FILE = 100_000, 5_000
FRAMES, RATE_HZ = 10, 8000


def wav(path, num_frames):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(np.arange(num_frames, dtype=np.int16).tobytes())
    return path.read_bytes()


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{row}\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), 1) if path.suffix == ".gz" else text.encode())


def files():
    """For each file its number, and those of its rows."""
    for file in range(NUM_ROWS // TO_A_FILE):
        yield file, range(file * TO_A_FILE, (file + 1) * TO_A_FILE)


def kaldi(root, sound):
    lines(root / "wav.scp", [f"rec-{number} cat rec.wav |" for number in range(NUM_ROWS // 100)])
    wav(root / "rec.wav", 100_000)
    segments = (
        f"utt-{number:06} rec-{number // 100} {number % 100 / 100} {number % 100 / 100 + 0.01}" for number in ALL
    )
    lines(root / "segments", segments)
    lines(root / "text", [f"utt-{number:06} text {number}" for number in ALL])


def nemo(root, sound):
    lines(root / "manifest.json", (json.dumps(nemo_row(number)) for number in ALL))
    for number in range(100):
        wav(root / f"{number}.wav", 100)


def nemo_row(number):
    return {"audio_filepath": f"{number % 100}.wav", "offset": number // 100 / 1000, "duration": 0.001, "text": "x"}


def lhotse(root, sound):
    for file, numbers in files():
        source = {"sources": [{"type": "shar", "channels": [0], "source": ""}], "channel_ids": [0]}
        recording = {**source, "sampling_rate": RATE_HZ, "num_samples": FRAMES, "duration": FRAMES / RATE_HZ}
        cuts = (
            {
                "id": f"cut-{number}", "start": 0, "duration": FRAMES / RATE_HZ, "channel": 0, "type": "MonoCut",
                "supervisions": [], "recording": {"id": f"rec-{number}", **recording},
            }
            for number in numbers
        )  # fmt: skip
        lines(root / f"cuts.{file:06}.jsonl.gz", map(json.dumps, cuts))
        write_tar(root / f"recording.{file:06}.tar", {f"cut-{number}.wav": sound for number in numbers})


def webdataset(root, sound):
    for file, numbers in files():
        write_tar(root / f"{file:06}.tar", {f"utt-{number}.wav": sound for number in numbers})


def parquet(root, sound):
    root.mkdir(parents=True)
    for file, numbers in files():
        audio = [{"bytes": sound, "path": f"utt-{number}.wav"} for number in numbers]
        pl.DataFrame({"audio": audio, "text": ["x"] * TO_A_FILE}).write_parquet(root / f"train-{file:05}.parquet")


def tfrecord(root, sound):
    root.mkdir(parents=True)
    one = record(example({"audio": [sound], "text": [b"x"]}))
    for file, numbers in files():
        (root / f"train-{file:05}.tfrecord").write_bytes(one * len(numbers))


ALL = range(NUM_ROWS)
WRITERS = {write.__name__: write for write in (kaldi, nemo, lhotse, webdataset, parquet, tfrecord)}
NUM_RECORDINGS = {"kaldi": 1, "nemo": 100}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRITERS)
def test_a_hundred_thousand_rows_are_listed_and_name_recordings(kind, tmp_path):
    WRITERS[kind](tmp_path / "corpus", wav(tmp_path / "one.wav", FRAMES))
    corpus = open_corpus(kind, str(tmp_path / "corpus"), {})
    listed = [entry for chunk in corpus.list() for entry in zip(chunk.path, chunk.code, strict=True)]
    paths = {path for path, code in listed if code is None}
    assert len(listed) == len(paths) == NUM_RECORDINGS.get(kind, NUM_ROWS)
    num_rows = 0
    for row in corpus.rows().read():
        num_rows += 1
        assert row["path"] in paths
    assert num_rows == NUM_ROWS
