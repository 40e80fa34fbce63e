"""Exports of samples that were cut, read back as sources: what they were cut by must not cut them again."""

import json

import numpy as np
import pytest

from headrace.cli import main
from tests.support.corpora import build, write_sound

pytestmark = pytest.mark.medium

FORMS = {
    "webdataset": ("webdataset", "", {}),
    "energon": ("webdataset", "", {}),
    "dali": ("webdataset", "", {}),
    "nemo": ("nemo", "/tarred_audio_manifest.json", {}),
    "lhotse": ("lhotse", "/train", {}),
    "parquet": ("parquet", "/data/*.parquet", {}),
}
"""Form → the kind of source that reads it, what follows the folder in its `uri`, and its options."""

ROWS = [(0.0, 0.02), (0.02, 0.015), (0.03, 0.01)]
NAMES = {"nemo": ("offset", "duration"), "table": ("start", "duration")}


def first_output(folder, form):
    """An output of spans, whose JSON has the columns that they were cut by, and others with names of readers."""
    write_sound(folder / "plain/a.wav", 1)
    start, duration = NAMES[form]
    rows = [
        {
            "audio_filepath": "a.wav",
            start: begin,
            duration: length,
            "text": f"t{number}",
            "channel": "phone",
            "end": 9.0,
        }
        for number, (begin, length) in enumerate(ROWS)
    ]
    table = folder / "plain/m.json"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = {"path": "audio_filepath", "start": start, "duration": duration}
    table_of = {"uri": str(folder / "plain"), "metadata": str(table), "samples": "rows", "columns": columns}
    source = {"kind": "nemo", "uri": str(table)} if form == "nemo" else table_of | {"table": {"format": "jsonl"}}
    return build(folder / "one", source)


@pytest.mark.parametrize("made_from", NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_read_back_is_not_cut_again(tmp_path, form, made_from):
    first = first_output(tmp_path, made_from)
    assert main(["export", first.remote, str(tmp_path / "out"), "--to", form]) == 0
    kind, below, options = FORMS[form]
    again = build(tmp_path / "two", {"kind": kind, "uri": f"{tmp_path}/out{below}", "options": options})
    assert again.rejects == {}
    assert len(again.samples) == len(ROWS)
    sounds = [sorted(np.asarray(one["audio"]).tobytes() for one in built.samples.values()) for built in (first, again)]
    assert sounds[0] == sounds[1]
