"""Recognises folders of recordings without tables: sidecars, folders as labels, plain folders."""

import re
from collections import Counter

from headrace.adopt.listing import AUDIO_PATTERNS, FIELDS_GUIDE, FileList, Layout

_SIDECARS = ("json", "txt", "lab", "lyrics")
_PARTS = {"train", "training", "dev", "development", "val", "valid", "validation", "test", "testing", "eval"}
_SPEAKER = re.compile(r"(id|p|spk|speaker)?\d+")


def sidecars(files: FileList) -> Layout | None:
    """Files of text or JSON beside at least half of the recordings."""
    found = Counter(end for name in files.names if (end := files.sidecar_extension(name)))
    ends = [
        end for end, count in found.items() if end.rpartition(".")[2] in _SIDECARS and 2 * count >= len(files.audio)
    ]
    if not ends:
        return None
    used = (*AUDIO_PATTERNS, *(f"*.{end}" for end in ends))
    return Layout("recordings with sidecars", {"sidecars": sorted(ends)}, used)


def labels(files: FileList) -> Layout | None:
    """Folders whose names are labels: each recording at the same depth, and several folders."""
    paths = [name.split("/")[:-1] for name in files.audio]
    depth = len(paths[0]) if paths else 0
    if not depth or any(len(path) != depth for path in paths):
        return None
    levels = [sorted({path[level] for path in paths}) for level in range(depth)]
    if all(len(names) == 1 for names in levels):
        return None
    columns = _columns(levels)
    template = "/".join(f"{{{column}}}" if column else names[0] for column, names in zip(columns, levels, strict=True))
    named = [f"{column}: {', '.join(names[:4])}" for column, names in zip(columns, levels, strict=True) if column]
    named += _stems(files)
    group_by = "speaker" if "speaker" in columns else ""
    source = {"path_columns": f"{template}/{{_}}", "labels": [name for name in ("label", "speaker") if name in columns]}
    chosen = {key: value for key, value in source.items() if value}
    return Layout("folders as labels", chosen, AUDIO_PATTERNS, tuple(named), (), group_by)


def _stems(files: FileList) -> list[str]:
    """A note if the recordings of each folder have the same names, as the stems of songs have, and no numbers."""
    folders: dict[str, set[str]] = {}
    for name in files.audio:
        folder, _, last = name.rpartition("/")
        folders.setdefault(folder, set()).add(last)
    first, *others = folders.values()
    if len(first) < 2 or any(names != first for names in others) or re.search(r"\d\w*\.", " ".join(first)):
        return []
    note = (
        f"each folder has {', '.join(sorted(first)[:5])}, and each file is a sample of its own; for one sample of all "
        f"of them, write a table with a column for each, and name the columns in source.fields ({FIELDS_GUIDE})"
    )
    return [note]


def plain(files: FileList) -> Layout | None:
    """Any folder with recordings."""
    return Layout("folder of recordings", {}, AUDIO_PATTERNS) if files.audio else None


def _columns(levels: list[list[str]]) -> list[str]:
    """A column for each level of folders; empty for a level with one name."""
    several = [len(names) > 1 for names in levels]
    is_part = [several[at] and {name.lower() for name in names} <= _PARTS for at, names in enumerate(levels)]
    rest = [at for at in range(len(levels)) if several[at] and not is_part[at]]
    named = (
        {at: f"folder{number}" for number, at in enumerate(rest, 1)} if len(rest) > 1 else dict.fromkeys(rest, "label")
    )
    if len(rest) == 2 and all(_SPEAKER.fullmatch(name) for name in levels[rest[0]]):
        named = dict(zip(rest, ("speaker", "video"), strict=True))
    return ["part" if is_part[at] else named.get(at, "") for at in range(len(levels))]
