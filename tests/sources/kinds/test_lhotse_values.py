"""Values of a wrong kind in manifests of Lhotse: each is an error with its file and line, in every form of manifest."""

import copy
import json

import pytest

from headrace.errors import ConfigError
from headrace.sources.sources import open_corpus

RECORDING = {
    "id": "r", "sources": [{"type": "file", "channels": [0, 1], "source": "a.wav"}], "sampling_rate": 8000,
    "num_samples": 800, "duration": 0.1, "channel_ids": [0, 1],
}  # fmt: skip
SUPERVISION = {
    "id": "s", "recording_id": "r", "start": 0.01, "duration": 0.05, "channel": 0, "text": "hi", "custom": {"x": 1},
    "alignment": {"word": [["a", 0.01, 0.02, 0.9]]},
}  # fmt: skip
CUT = {
    "id": "c", "start": 0.02, "duration": 0.06, "channel": 0, "supervisions": [SUPERVISION], "recording": RECORDING,
    "custom": {"y": 2}, "type": "MonoCut",
}  # fmt: skip

NO_NUMBERS = ["0.5", "", True, float("nan"), float("inf"), [], {}]
NO_CHANNELS = ["A", True, {}, [0, "a"], [[0]]]
NO_LISTS = [5, True, "x", {"a": 1}, [1], ["x"]]
NO_OBJECTS = [5, True, "x", [1]]
OF_A_SUPERVISION = {
    ("start",): NO_NUMBERS,
    ("duration",): NO_NUMBERS,
    ("channel",): NO_CHANNELS,
    ("custom",): NO_OBJECTS,
    ("alignment",): [*NO_OBJECTS, {"word": 5}, {"word": None}],
    ("alignment", "word"): NO_LISTS,
    ("alignment", "word", 0): [5, "abcd", {"a": 1}, [], ["a", 0.0]],
    ("alignment", "word", 0, 1): NO_NUMBERS,
    ("alignment", "word", 0, 2): NO_NUMBERS,
}
OF_A_RECORDING = {
    ("sources",): NO_LISTS,
    ("sources", 0, "channels"): [5, True, "x", {"a": 1}, [0, "a"]],
    ("channel_ids",): [5, True, "x", {"a": 1}, [0, "a"]],
    ("duration",): NO_NUMBERS,
}
OF_A_CUT = {
    ("start",): NO_NUMBERS,
    ("duration",): NO_NUMBERS,
    ("channel",): NO_CHANNELS,
    ("custom",): NO_OBJECTS,
    ("supervisions",): NO_LISTS,
    ("recording",): NO_OBJECTS,
}
TABLES = {
    "cuts": {
        **OF_A_CUT,
        **{("supervisions", 0, *path): values for path, values in OF_A_SUPERVISION.items()},
        **{("recording", *path): values for path, values in OF_A_RECORDING.items()},
    },
    "supervisions": OF_A_SUPERVISION,
    "recordings": OF_A_RECORDING,
}
GOOD = {"cuts": CUT, "supervisions": SUPERVISION, "recordings": RECORDING}


def changed(content, path, value):
    made = copy.deepcopy(content)
    place = made
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return made


def write(folder, form, wrong):
    """A manifest whose second line is `wrong`; of supervisions and recordings, the other one beside it."""
    folder.mkdir(exist_ok=True)
    others = {} if form == "cuts" else {name: [GOOD[name]] for name in ("recordings", "supervisions")}
    for name, contents in {**others, form: [GOOD[form], {**wrong, "id": "second"}]}.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(content)}\n" for content in contents))


def read(folder, form):
    corpus = open_corpus("lhotse", str(folder), {"supervisions": form})
    return list(corpus.list()), list(corpus.rows().read())


@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize(
    ("manifest", "path"), [(name, path) for name, table in TABLES.items() for path in table], ids=str
)
def test_a_value_of_a_wrong_kind_is_an_error_with_its_file_and_line(tmp_path, manifest, path, form):
    for value in TABLES[manifest][path]:
        write(tmp_path, manifest, changed(GOOD[manifest], path, value))
        names = ".".join(map(str, path))
        with pytest.raises(ConfigError, match=rf"{manifest}\.jsonl, line 2: {names}.*: expected .*, found ") as error:
            read(tmp_path, form)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize("manifest", GOOD)
def test_null_is_a_missing_value(tmp_path, manifest, form):
    for path in TABLES[manifest]:
        if path[-1] not in {0, 1, 2, "word"}:
            write(tmp_path, manifest, changed(GOOD[manifest], path, None))
            assert read(tmp_path, form)[1]


def test_a_cut_that_ends_before_it_begins_is_a_row_whose_span_a_scan_rejects(tmp_path):
    write(tmp_path, "cuts", {**CUT, "duration": -1})
    (_, row) = read(tmp_path, "columns")[1]
    assert row["duration"] == -1
    assert all(0 <= item["start"] <= item["end"] for item in row["supervisions"])
