"""Tables that name recordings: which column does, how a path is made of it, and the section that reads the table."""

import pytest

from headrace.adopt import tables
from headrace.adopt.listing import listed

ROWS = [("a", "one"), ("b", "two"), ("c", "three")]


def folder_of(tmp_path, files, recordings=("wavs/a.wav", "wavs/b.wav", "wavs/c.wav")):
    for name in recordings:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    return listed(tmp_path)


def table(head, row, delimiter=","):
    lines = [delimiter.join(head)] if head else []
    return "".join(f"{line}\n" for line in [*lines, *(delimiter.join(row(stem, text)) for stem, text in ROWS)])


LINKS = {
    "path": (lambda stem, text: (f"wavs/{stem}.wav", text), "path"),
    "name": (lambda stem, text: (f"{stem}.wav", text), "wavs/{cell}"),
    "stem": (lambda stem, text: (stem, text), "wavs/{cell}.wav"),
}


@pytest.mark.parametrize(("row", "path"), LINKS.values(), ids=LINKS)
@pytest.mark.parametrize(("delimiter", "name"), [(",", "t.csv"), ("\t", "t.tsv"), ("|", "t.txt"), (";", "t.csv")])
def test_a_cell_is_a_path_a_name_or_a_stem(row, path, delimiter, name, tmp_path):
    head = ("path" if path == "path" else "cell", "text")
    layout = tables.any_table(folder_of(tmp_path, {name: table(head, row, delimiter)}))
    assert layout.source["metadata"] == str(tmp_path / name)
    assert layout.source.get("columns", {}).get("path", "path") == path
    assert layout.source.get("table", {}).get("delimiter", ",") == ("," if delimiter in ",\t" else delimiter)
    assert ("quotes" in layout.source.get("table", {})) == (delimiter in "\t|")


def test_a_table_without_a_header_gets_one(tmp_path):
    content = table((), lambda stem, text: (stem, text.title(), text), "|")
    layout = tables.any_table(folder_of(tmp_path, {"metadata.csv": content}))
    assert layout.source["table"] == {"delimiter": "|", "header": ["id", "text", "normalized"], "quotes": "none"}
    assert layout.source["columns"] == {"path": "wavs/{id}.wav"}


@pytest.mark.parametrize(
    ("head", "cells", "columns"),
    [
        (("path", "start", "end"), ("0.5", "1.5"), {"start": "start", "end": "end"}),
        (("path", "offset", "duration"), ("0.5", "1"), {"start": "offset", "duration": "duration"}),
        (("path", "start", "note"), ("0.5", "x"), None),
        (("path", "start", "end"), ("soon", "late"), None),
    ],
)
def test_rows_with_times_are_samples(head, cells, columns, tmp_path):
    layout = tables.any_table(folder_of(tmp_path, {"t.csv": table(head, lambda stem, _: (f"wavs/{stem}.wav", *cells))}))
    assert layout.source.get("samples") == ("rows" if columns else None)
    assert layout.source.get("columns") == columns


def test_absolute_paths_say_where_the_recordings_are(tmp_path):
    files = folder_of(tmp_path, {"t.csv": table(("path", "text"), lambda stem, text: (f"/far/away/{stem}.wav", text))})
    assert tables.any_table(files).source["uri"] == "/far/away"


def test_the_whole_table_is_taken_before_its_parts(tmp_path):
    content = table(("path", "sentence"), lambda stem, text: (f"{stem}.wav", text), "\t")
    names = ("dev.tsv", "test.tsv", "validated.tsv")
    layout = tables.any_table(folder_of(tmp_path, dict.fromkeys(names, content)))
    assert layout.source["metadata"] == str(tmp_path / "validated.tsv")
    layout = tables.any_table(folder_of(tmp_path / "parts", dict.fromkeys(names[:2], content)))
    assert layout.source["metadata"] == [str(tmp_path / "parts" / name) for name in names[:2]]


@pytest.mark.parametrize(
    "content", ["", "x,y\n", "name,text\nx.wav,one\n", "[1, 2", '{"audio": 1}\n', "one line of prose\n", "\0\1\2"]
)
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.txt", "t.csv.gz"])
def test_a_file_that_names_no_recording_is_no_table(content, name, tmp_path):
    assert tables.any_table(folder_of(tmp_path, {name: content})) is None
