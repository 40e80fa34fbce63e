"""Writes the YAML of a data set for a layout."""

import math
import re

import yaml

from headrace.adopt.listing import FileList, Layout, extensions_of
from headrace.source_kinds import FILES

_ABOUT = {
    "uri": "nothing below it is changed",
    "kind": "the rows of the corpus are the samples (docs/sources.md)",
    "metadata": "the table, joined to the recordings by their paths",
    "table": "how the table is read",
    "samples": "each row of the table is a sample",
    "columns": "columns with a meaning",
    "key_form": "keys with other characters than A-Z a-z 0-9 _ - are changed",
    "sidecars": "files beside recordings whose values become columns",
    "path_columns": "columns from the paths of recordings",
    "labels": "columns whose values get numbers that stay, for tensors= of the loader",
    "ignore": "files that are no recordings",
    "where": "other rows are left out",
}
_MORE = """\
# audio:  {sample_rate: 16000, num_channels: 1}     # without it, samples keep the format of their recordings
# splits: {train: 0.9, validation: 0.05, test: 0.05}
# shards: {samples_per_shard: 50, partitions: {train: 16}}
# docs/config.md has all keys.
"""


def yaml_text(layout: Layout, files: FileList, output: str) -> str:
    """The content of the YAML file, with comments."""
    source = {"uri": str(files.path), **layout.source}
    if source.get("kind", FILES) == FILES and (ignored := _ignored(layout, files)):
        source["ignore"] = ignored
    lines = [f"# {_line(layout.name)}", *(f"# {_line(note)}" for note in layout.notes), "source:"]
    lines += [_commented(f"  {name}: {_dumped(value)}") for name, value in source.items()]
    if layout.group_by:
        lines.append(f"# group_by: {layout.group_by}     # its values then never cross splits")
    return "\n".join([*lines, yaml.safe_dump({"output": {"uri": output}}).rstrip(), _MORE])


def _dumped(value: object) -> str:
    """A value as YAML on one line."""
    styles = (None, '"')  # of texts: the second escapes line breaks
    texts = (
        yaml.safe_dump([value], allow_unicode=True, width=math.inf, default_flow_style=True, default_style=style)
        for style in styles
    )
    return next(text for text in (text.strip()[1:-1] for text in texts) if "\n" not in text)


def _commented(line: str) -> str:
    match = re.match(r"  (\w+):", line)
    return f"{line}     # {_ABOUT[match[1]]}" if match and match[1] in _ABOUT else line


def _ignored(layout: Layout, files: FileList) -> list[str]:
    """Patterns of the files that are no recordings: their extensions, or their names if used files have the same."""
    unused = layout.unused(files)
    used = extensions_of(sorted(set(files.names) - set(unused)))
    last = {name.rpartition("/")[2] for name in unused}
    kept = [pattern for pattern in extensions_of(unused) if pattern not in used]
    names = [name for name in last if extensions_of([name]).keys() & used.keys()]
    return sorted({*kept, *(re.sub(r"([*?\[])", r"[\1]", name) for name in names)})


def _line(text: str) -> str:
    """A text that is safe in a comment: on one line, without control characters."""
    return "".join(one if one.isprintable() else "?" for one in text)
