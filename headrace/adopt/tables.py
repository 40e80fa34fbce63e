"""Recognises folders of recordings with tables that name them: audiofolder, LJSpeech, LibriSpeech, Raven and others."""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from headrace.adopt.corpora import first_object, folder_of, place
from headrace.adopt.folders import sidecars
from headrace.adopt.listing import AUDIO_PATTERNS, FIELDS_GUIDE, FileList, Layout
from headrace.format.typed_json import json_value
from headrace.path_templates import TABLE_STEM

Row = Mapping[str, str]
_ROWS = 50
_MOST_TABLES = 50
_CSV, _JSON = (".csv", ".tsv", ".txt"), (".jsonl", ".json", ".list")
_PARQUET = ".parquet"
_PACKED = (".gz", ".zst")
_RAVEN = "Selection\t"
_STARTS = ("start", "start_time", "begin", "onset", "t0", "offset", "Begin Time (s)")
_ENDS = ("end", "end_time", "stop", "t1", "End Time (s)")
_WHOLE = ("validated", "all")


@dataclass(frozen=True, slots=True)
class _Table:
    """The first rows of a table, and the section `source.table` that reads it."""

    name: str
    rows: Sequence[Row]
    form: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Link:
    """The column with the names of recordings: a path is `before`, the cell, `after`."""

    column: str
    before: str
    after: str

    def columns(self, table: _Table) -> dict[str, str]:
        """`source.columns` with the path."""
        before = self.before.removeprefix(f"{folder_of(table.name)}/")
        is_plain = not (before or self.after or self.column == TABLE_STEM)
        path = self.column if is_plain else f"{before}{{{self.column}}}{self.after}"
        return {} if path == "path" else {"path": path}


def librispeech(files: FileList) -> Layout | None:
    """A table in each folder, with an id and then words up to the end of the line."""
    names = [name for name in files.tables if name.endswith(".trans.txt")]
    form = {"delimiter": " ", "header": ["utt", "text"]}
    rows = {name: [line.split(maxsplit=1) for line in files.lines(name)[:_ROWS]] for name in names[:5]}
    tables = [_Table(name, [dict(zip(form["header"], row, strict=False)) for row in rows[name]], form) for name in rows]
    return _layout(files, "LibriSpeech", tables, "**/*.trans.txt")


def raven(files: FileList) -> Layout | None:
    """Selection tables of Raven or BirdNET: each row is an event of a recording."""
    texts = [name for name in ([files.table] if files.table else files.names) if name.endswith(".txt")]
    heads = {name: files.lines(name) for name in texts[:_MOST_TABLES]}
    found = [name for name, lines in heads.items() if lines and lines[0].startswith(_RAVEN)]
    tables = [_Table(name, _delimited(heads[name], "\t", csv.QUOTE_NONE), {"format": "tsv"}) for name in found]
    tables = [_Table(one.name, [{**row, TABLE_STEM: _stem(one.name)} for row in one.rows], one.form) for one in tables]
    ends = {name.rpartition("/")[2].split(".", 1)[1] for name in found}
    pattern = f"**/*.{ends.pop()}" if len(ends) == 1 else "**/*.txt"
    return _layout(files, "Raven selection tables", tables, pattern)


def audiofolder(files: FileList) -> Layout | None:
    """An `audiofolder` of Hugging Face: `metadata` with a column `file_name`."""
    names = [name for name in files.tables if name.rpartition("/")[2] in {"metadata.csv", "metadata.jsonl"}]
    tables = [table for table in map(_table(files), names[:_MOST_TABLES]) if table and "file_name" in table.rows[0]]
    pattern = f"**/{names[0].rpartition('/')[2]}" if names else ""
    return _layout(files, "Hugging Face audiofolder", tables, pattern)


def any_table(files: FileList) -> Layout | None:
    """Tables with a header, or LJSpeech's form without one, that name recordings by path, name or id."""
    if not files.names:
        return None
    names = [name for name in files.tables if _plain(name).endswith((*_CSV, *_JSON, _PARQUET))]
    read = [table for table in map(_table(files), names[:_MOST_TABLES]) if table]
    linked = [(table, link) for table in read if (link := _link(files, table))]
    if not linked:
        return None
    whole = [pair for pair in linked if _stem(pair[0].name).partition(".")[0] in _WHOLE]
    first, link = (whole or linked)[0]
    alike = [
        one
        for one, other in linked
        if other == link and one.form == first.form and one.rows[0].keys() == first.rows[0].keys()
    ]
    tables = [first] if whole else alike
    name = {"|": "LJSpeech", "list": "WeNet list"}.get(str(first.form.get("delimiter", first.name.rpartition(".")[2])))
    layout = _layout(files, name or "table of recordings", tables)
    return layout and layout.with_sidecars(sidecars(files))


def is_table(files: FileList) -> bool:
    """Whether the file that the user named is a table."""
    return _table(files)(files.table) is not None


def _layout(files: FileList, name: str, tables: Sequence[_Table], pattern: str = "") -> Layout | None:
    """The layout of tables, if they name recordings; the first says how they are read."""
    link = next((found for table in tables if (found := _link(files, table))), None)
    if link is None:
        return None
    first = next(table for table in tables if _link(files, table))
    names = [table.name for table in tables]
    spans, key = _spans(first.rows[0]), {"key": "key"} if "key" in first.rows[0] and link.column != "key" else {}
    columns = {**link.columns(first), **spans, **key}
    is_double = len({row.get("View") for row in first.rows}) > 1
    pattern = "" if files.table else pattern
    metadata = [pattern] if pattern else [place(files, one) for one in names]
    optional = {
        "table": dict(first.form),
        "where": "\"View\" like 'Spectrogram%'" if is_double else None,
        "samples": "rows" if spans else None,
        "columns": columns,
        "key_form": "slug" if key else None,
    }
    chosen = {name: value for name, value in optional.items() if value}
    outside = _outside(first, link)
    source = {**outside, "metadata": metadata if metadata[1:] else metadata[0], **chosen}
    note = f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}: column {link.column} names the recordings"
    notes = (note, *_of_others(files, first, link))
    speaker = next((one for one in ("speaker", "speaker_id", "spk", "client_id") if one in first.rows[0]), "")
    examples = tuple(dict.fromkeys(path for table in tables for path in _named(files, table, outside.get("uri", ""))))
    return Layout(
        name,
        source,
        (*AUDIO_PATTERNS, *([pattern.removeprefix("**/")] if pattern else names)),
        notes,
        examples[:5],
        speaker,
    )


def _of_others(files: FileList, table: _Table, link: _Link) -> list[str]:
    """A note for each further column that names recordings, most of them other ones."""
    others = {column for row in table.rows for column in row} - {link.column}
    alone = {column: [{column: row[column]} for row in table.rows if column in row] for column in sorted(others)}
    found = {column: _link(files, replace(table, rows=rows)) for column, rows in alone.items()}
    mine = set(_named(files, table, ""))
    way_out = f"for samples of several recordings, name columns of paths in source.fields ({FIELDS_GUIDE})"
    return [
        f"column {column} names recordings, too, which are not read as such: {way_out}"
        for column, other in found.items()
        if other and mine.isdisjoint(_named(files, replace(table, rows=alone[column]), ""))
    ]


def _named(files: FileList, table: _Table, uri: str) -> Iterator[str]:
    """The recordings that the first rows of a table name; those below `uri` if it is not the listed folder."""
    link = _link(files, table) or _Link("", "", "")
    cells = (str(row.get(link.column, "")) for row in table.rows)
    if uri:
        return (cell.removeprefix(f"{uri}/") for cell in cells)
    return (found for cell in cells if (found := files.by_stem.get(f"{link.before}{cell}{link.after}")))


def _link(files: FileList, table: _Table) -> _Link | None:
    """The column that names recordings in at least half of the rows."""
    found = (_link_of(files, table.name, column, cell) for row in table.rows for column, cell in row.items())
    best = Counter(filter(None, found)).most_common(1)
    return best[0][0] if best and 2 * best[0][1] >= len(table.rows) else None


def _link_of(files: FileList, table: str, column: str, cell: object) -> _Link | None:
    """The link of a cell that names a recording: by its path, its name, or its name without the extension."""
    if not isinstance(cell, str) or not cell.strip("./") or "\n" in cell:
        return None
    if cell.startswith("/"):
        is_audio = cell.lower().endswith(tuple(end[1:] for end in AUDIO_PATTERNS))
        return _Link(column, "", "") if is_audio else None
    near = f"{folder_of(table)}/{cell}".removeprefix("/")
    ends = [key for key in files.by_end.get(cell.rpartition("/")[2], ()) if f"/{key}".endswith(f"/{cell}")]
    key = near if near in files.by_stem else min(ends, key=len, default=None)
    if key is None:
        return None
    return _Link(column, key.removesuffix(cell), files.by_stem[key].removeprefix(key))


def _outside(table: _Table, link: _Link) -> dict[str, str]:
    """`uri` for absolute paths: the folder that has all of them."""
    paths = [cell for row in table.rows if (cell := row.get(link.column, "")).startswith("/")]
    folders = [path.split("/")[:-1] for path in paths]
    common = [part for part, *rest in zip(*folders, strict=False) if all(one == part for one in rest)]
    return {"uri": "/".join(common) or "/"} if paths else {}


def _spans(row: Row) -> dict[str, str]:
    """Columns of seconds, if a row says where a sample begins and ends."""
    start = next((name for name in _STARTS if _is_number(row.get(name))), None)
    end = next((name for name in _ENDS if _is_number(row.get(name))), None)
    duration = "duration" if end is None and _is_number(row.get("duration")) else None
    if start is None or (end or duration) is None:
        return {}
    return {"start": start, "end": end} if end else {"start": start, "duration": "duration"}


def _is_number(cell: object) -> bool:
    try:
        float(str(cell))
    except ValueError:
        return False
    return True


def _table(files: FileList) -> Callable[[str], _Table | None]:
    def read(name: str) -> _Table | None:
        plain = _plain(name)
        if plain.endswith(_PARQUET):
            return _Table(name, found) if (found := files.rows(name, _ROWS)) else None
        lines = files.lines(name)[: _ROWS + 1]
        if plain.endswith(_JSON):
            rows = _objects(lines)
            form = {"format": "jsonl"} if plain.endswith(".list") else {}
            return _Table(name, rows, form) if rows else None
        delimiter = "\t" if plain.endswith(".tsv") else max("|\t;,", key=(lines or [""])[0].count)
        if not lines or delimiter not in lines[0]:
            return None
        return _delimited_table(files, name, lines, delimiter)

    return read


def _delimited_table(files: FileList, name: str, lines: list[str], delimiter: str) -> _Table | None:
    """A table of CSV; without a header if already its first line names a recording."""
    usual = "\t" if _plain(name).endswith(".tsv") else ","
    form: dict[str, Any] = {} if delimiter == usual else {"delimiter": delimiter}
    cells = lines[0].split(delimiter)
    numbered = {str(number): cell for number, cell in enumerate(cells)}
    if any(_link_of(files, name, number, cell) for number, cell in numbered.items()):
        names = ("id", "text", "normalized") if len(cells) <= 3 else tuple(f"column{at}" for at in range(len(cells)))
        form["header"] = list(names[: len(cells)])
        lines = [delimiter.join(form["header"]), *lines]
    if delimiter in "|\t":
        form["quotes"] = "none"
    rows = _delimited(lines, delimiter, csv.QUOTE_NONE if "quotes" in form else csv.QUOTE_MINIMAL)
    return _Table(name, rows, form) if rows else None


def _delimited(lines: Iterable[str], delimiter: str, quoting: Literal[0, 3]) -> list[Row]:
    reader = csv.DictReader(lines, delimiter=delimiter, quoting=quoting)
    return [{key: cell for key, cell in row.items() if isinstance(key, str) and cell} for row in islice(reader, _ROWS)]


def _objects(lines: Sequence[str]) -> list[Mapping[str, Any]]:
    if not lines or lines[0].lstrip().startswith("["):
        return [row] if (row := first_object(lines)) else []
    found = []
    for line in lines:
        try:
            found.append(json_value(line))
        except ValueError:
            return []
    return [row for row in found if isinstance(row, dict)]


def _plain(name: str) -> str:
    return name.lower().removesuffix(_PACKED[0]).removesuffix(_PACKED[1])


def _stem(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]
