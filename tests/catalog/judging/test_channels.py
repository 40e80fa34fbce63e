"""Channels of rows (`source.columns.channel`): their cells, keys, rejects, and what becomes of the audio."""

import io
import json

import numpy as np
import pytest
import soundfile

from headrace.catalog.rows.row_columns import channel_text
from headrace.format.segment_keys import span_recording
from tests.support.yaml_corpora import YamlCorpus, rejected_codes

RATE = 8000
CHANNELS = {"samples": "rows", "metadata": "t.jsonl", "columns": {"channel": "channel"}}


def sound(num_channels, num_frames=800):
    """Noise, int16 (frames, channels), another for each channel."""
    return np.random.default_rng(5).integers(-9000, 9000, (num_frames, num_channels), np.int16)


@pytest.fixture
def corpus(tmp_path):
    made = YamlCorpus(tmp_path)
    made.rows_written = []
    return made


def put_sound(corpus, name, num_channels, **form):
    blob = io.BytesIO()
    soundfile.write(blob, sound(num_channels), RATE, format=name.rpartition(".")[2].upper(), **form)
    corpus.write(name, blob.getvalue())


def put_rows(corpus, *rows):
    corpus.write("t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        *[(cell, "0") for cell in (0, "0", " 0 ", "A", 0.0, [0], "[0]", "00")],
        *[(cell, "1") for cell in (1, "1", "B", 1.0, "1.0", ["B"], "[1]")],
        *[(cell, "0-1") for cell in ([0, 1], "[0, 1]", "[0,1]", [0.0, "B"])],
        ([1, 0], "1-0"),
        (None, None),
        ("", None),
        *[(cell, f"?{cell}") for cell in (-1, "x", 0.5, [], "[]", [0, 0], "0-1", "[0", "1,2", 1000, "a", True, [None])],
    ],
)
def test_cells_are_numbers_lists_and_letters(cell, expected):
    assert channel_text(cell) == expected


@pytest.mark.medium
@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("t.csv", "path,channel\na.wav,0\na.wav,1\n"),
        ("t.csv", "path,channel\na.wav,A\na.wav,B\n"),
        ("t.csv", 'path,channel\na.wav,[0]\na.wav,"[1]"\n'),
        ("t.jsonl", '{"path": "a.wav", "channel": 0}\n{"path": "a.wav", "channel": 1}\n'),
        ("t.jsonl", '{"path": "a.wav", "channel": [0]}\n{"path": "a.wav", "channel": [1]}\n'),
    ],
)
def test_two_rows_of_one_span_and_different_channels_are_two_samples(corpus, table, text):
    put_sound(corpus, "a.wav", 2)
    corpus.write(table, text)
    samples = corpus.samples(**CHANNELS | {"metadata": table})
    assert sorted(key.partition("-c")[2] for key in samples) == ["0-f0-800", "1-f0-800"]
    for key, sample in samples.items():
        number = int(key.partition("-c")[2][0])
        assert np.array_equal(sample["audio"][:, 0], sound(2)[:, number])
        assert sample["headrace"]["channels"] == [number]
        assert (sample["headrace"]["start_frame"], sample["headrace"]["num_channels"]) == (0, 1)
        assert span_recording(key)
        assert "-c" not in span_recording(key)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("codec", "name", "audio"),
    [
        *((codec, name, {}) for codec in ("flac", "copy", "opus") for name in ("a.wav", "a.flac", "a.ogg")),
        *(("flac", name, {"num_channels": 1}) for name in ("a.wav", "a.flac", "a.ogg")),
        ("copy", "a.flac", {"num_channels": 1}),
        ("opus", "a.wav", {"num_channels": 1}),
        *(("flac", name, {"sample_rate": 12000}) for name in ("a.wav", "a.ogg")),
        ("opus", "a.flac", {"sample_rate": 12000}),
    ],
)
def test_chosen_channels_are_those_of_a_recording_that_has_only_these(corpus, codec, name, audio):
    """Cut out before they are mixed and resampled; never the recording's own bytes."""
    if name == "a.ogg":
        put_sound(corpus, "whole.ogg", 3)
        whole = soundfile.read(corpus.corpus / "whole.ogg", always_2d=True)[0][:, [0, 2, 1]]  # in the order of WAV
        soundfile.write(corpus.corpus / "ref.wav", whole[:, [2, 0]], RATE, subtype="FLOAT")
        name = "whole.ogg"
    else:
        put_sound(corpus, name, 3)
        soundfile.write(corpus.corpus / "ref.wav", sound(3)[:, [2, 0]], RATE)
    bits = {} if codec == "opus" else {"bits_per_sample": 16}
    corpus.sections["audio"] = {"codec": codec, **bits, **audio}
    put_rows(
        corpus,
        {"path": name, "channel": [2, 0], "start": 0.01, "end": 0.09, "key": "of"},
        {"path": "ref.wav", "channel": None, "start": 0.01, "end": 0.09, "key": "ref"},
        {"path": name, "channel": [2, 0], "start": 0.0, "end": None, "key": "whole"},
    )
    samples = corpus.samples(**CHANNELS | {"columns": {"channel": "channel", "key": "key"}})
    assert samples["of"]["extension"] == samples["whole"]["extension"] == ("opus" if codec == "opus" else "flac")
    if codec != "opus":
        distance = np.abs(samples["of"]["audio"].astype(int) - samples["ref"]["audio"])
        assert samples["of"]["audio"].shape == samples["ref"]["audio"].shape
        assert distance.max() <= (1 if name == "whole.ogg" else 0)
    assert samples["whole"]["headrace"]["channels"] == [2, 0]
    assert samples["whole"]["audio"].shape[1] == audio.get("num_channels", 2)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ([0, 2], "row 1 of the metadata table has channel: 2, but a.wav has 2 channels, whose numbers begin at 0"),
        (["x"], "row 1 of the metadata table has channel: ['x'], expected the number of a channel from 0, a list"),
    ],
)
def test_a_channel_that_the_recording_lacks_is_a_reject(corpus, cell, reason):
    put_sound(corpus, "a.wav", 2)
    put_rows(
        corpus, {"path": "a.wav", "channel": cell}, {"path": "a.wav", "channel": [str(0)] if cell == ["x"] else [0]}
    )
    scan = corpus.scan(**CHANNELS)
    assert (scan.num_recordings, rejected_codes(scan)) == (1, {"bad_channel": 1})
    assert scan.rejected["reason"][0].startswith(reason)


def test_rows_that_differ_in_nothing_else_are_merged_only_with_equal_channels(corpus):
    put_sound(corpus, "a.wav", 2)
    rows = [{"path": "a.wav", "channel": channel} for channel in (0, 1, 0, None)]
    put_rows(corpus, *rows)
    scan = corpus.scan(**CHANNELS)
    assert (scan.num_recordings, scan.num_merged_rows) == (3, 1)
    assert sorted(scan.recordings["channels"].to_list(), key=str) == ["0", "1", None]
    assert scan.recordings["duplicate_of"].to_list() == [None] * 3


def test_equal_channels_of_equal_files_are_duplicates(corpus):
    for name in ("a.wav", "b.wav"):
        put_sound(corpus, name, 2)
    put_rows(corpus, *({"path": name, "channel": channel} for name in ("a.wav", "b.wav") for channel in (0, 1)))
    scan = corpus.scan(**CHANNELS, duplicates="drop")
    assert (scan.num_recordings, rejected_codes(scan)) == (2, {"duplicate": 3})  # two rows, and a file


@pytest.mark.medium
@pytest.mark.parametrize("content", ["embed", "minimal"])
def test_another_channel_rewrites_its_sample(corpus, content):
    put_sound(corpus, "a.wav", 2)
    corpus.sections["shards"] = {"samples_per_shard": 1}
    put_rows(corpus, *({"path": "a.wav", "channel": channel, "key": f"k{channel}"} for channel in (0, 1)))
    asked = CHANNELS | {"columns": {"channel": "channel", "key": "key"}, "json": content}
    assert len(corpus.build(**asked)) == 2
    assert corpus.build(**asked) == []
    put_rows(corpus, {"path": "a.wav", "channel": 0, "key": "k0"}, {"path": "a.wav", "channel": 0, "key": "k1"})
    (sample,) = corpus.read(corpus.build(**asked)).values()
    assert np.array_equal(sample["audio"], sound(2)[:, :1])


@pytest.mark.medium
def test_a_key_of_a_channel_can_be_excluded(corpus):
    put_sound(corpus, "a.wav", 2)
    put_rows(corpus, *({"path": "a.wav", "channel": channel} for channel in (0, 1)))
    keys = corpus.scan(**CHANNELS).recordings["key"].to_list()
    corpus.sections["exclude"] = [keys[0]]
    scan = corpus.scan(**CHANNELS)
    assert scan.recordings["key"].to_list() == keys[1:]
    corpus.sections["exclude"] = [span_recording(keys[0])]  # that of the recording: all of its spans
    assert corpus.scan(**CHANNELS).num_recordings == 0


FORMS = {
    "a number and a list": ([0, [0, 1]], ["0", "0-1"]),
    "a number and a letter": ([0, "B"], ["0", "1"]),
    "a list and a letter": ([[1, 0], "A"], ["1-0", "0"]),
    "lists of numbers and of letters": ([[0], ["B"]], ["0", "1"]),
    "a list of both": ([[0, "B"], [1]], ["0-1", "1"]),
    "JSON as text and a list": (["[0, 1]", [1]], ["0-1", "1"]),
    "floats and a letter": ([0.0, "B"], ["0", "1"]),
    "all, and nothing": ([None, 1, "A", [0, 1]], [None, "1", "0", "0-1"]),
    "what is no channel": ([0, {"a": 1}, "B", True], ["0", "1"]),
}


def _doors(corpus, cells):
    """Write rows with these cells in each way in which they can be mixed: the source of each."""
    rows = [{"path": "a.wav", "channel": cell, "n": number} for number, cell in enumerate(cells)]
    corpus.write("t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    corpus.write("t.json", json.dumps(rows))
    for number, row in enumerate(rows):
        corpus.write(f"parts/{number}.jsonl", json.dumps(row) + "\n")
        cell = row["channel"] if isinstance(row["channel"], str) else json.dumps(row["channel"]).replace("null", "")
        corpus.write(f"mixed/{number}.csv", f'path,channel,n\na.wav,"{cell.replace(chr(34), chr(34) * 2)}",{number}\n')
    (corpus.corpus / "mixed/0.csv").unlink()
    corpus.write("mixed/0.jsonl", json.dumps(rows[0]) + "\n")
    rows_of_nemo = ({**row, "audio_filepath": "a.wav"} for row in rows)
    corpus.write("nemo.json", "".join(json.dumps({**row, "path": None}) + "\n" for row in rows_of_nemo))
    table = {"samples": "rows"}
    return [
        *({**table, "metadata": name} for name in ("t.jsonl", "t.json", "parts/*.jsonl", ["mixed/*"])),
        {"kind": "nemo", "uri": str(corpus.corpus / "nemo.json")},
    ]


@pytest.mark.medium
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("door", range(5), ids=["jsonl", "json", "several jsonl", "csv beside jsonl", "nemo"])
def test_forms_of_channels_may_be_mixed_in_a_column(corpus, form, door):
    put_sound(corpus, "a.wav", 2)
    cells, expected = FORMS[form]
    source = _doors(corpus, cells)[door]
    scan = corpus.scan(**{"columns": {"channel": "channel"}, **source})
    assert sorted(scan.recordings["channels"], key=str) == sorted(expected, key=str)
    lost = scan.rejected.filter(scan.rejected["path"] == "a.wav")  # the tables of the other doors are rejects, too
    assert lost["code"].to_list() == ["bad_channel"] * (len(cells) - len(expected))


@pytest.mark.medium
@pytest.mark.parametrize(("cells", "dtype"), [([0, 1], "Int64"), ([[0], [0, 1]], "List(Int64)"), ([0, "B"], "String")])
def test_a_column_of_channels_in_one_form_keeps_its_type(corpus, cells, dtype):
    put_sound(corpus, "a.wav", 2)
    put_rows(corpus, *({"path": "a.wav", "channel": cell} for cell in cells))
    assert str(corpus.scan(**CHANNELS).recordings["channel"].dtype) == dtype
