"""Recognises corpora that have rows of their own (`source.kind`): Kaldi, NeMo, Lhotse, Parquet, tars and others."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from headrace.adopt.listing import AUDIO_PATTERNS, FileList, Layout
from headrace.format.tars.member_names import KeyAt, split_name

_KALDI = ("wav.scp", "segments", "text", "utt2spk", "utt2lang", "spk2gender", "reco2file_and_channel")
_SHARDED = re.compile(r"(.*/)?(?:sharded_manifests/manifest[^/]*_\d+[^/]*\.json|tarred_audio_manifest\.json)")
_SHAR_CUTS = re.compile(r"(?:.*/)?cuts\.\d+\.jsonl\.gz")
_TFRECORD = re.compile(r"(?:.*/)?[^/]*\.tf_?records?(?:-\d+-of-\d+)?(?:\.gz)?")
_JSON_LINES = (".json", ".jsonl", ".json.gz", ".jsonl.gz", ".jsonl.zst")
_IN_PATTERNS = re.compile(r"[,{}]")
_MOST_HEADS = 50


def output(files: FileList) -> Layout | None:
    """An output of Headrace."""
    if not any(re.fullmatch(r"audio/snapshots/\d{8}\.json", name) for name in files.names):
        return None
    return Layout("output of Headrace", {"kind": "headrace"}, ("**",), ("its newest snapshot of audio is read",))


def kaldi(files: FileList) -> Layout | None:
    """A Kaldi data directory: the highest folder with `wav.scp`."""
    folders = [folder_of(name) for name in files.names if name.rpartition("/")[2] == "wav.scp"]
    if not folders:
        return None
    first = min(folders, key=lambda folder: (folder.count("/"), folder))
    used = tuple(f"{first}/{name}".removeprefix("/") for name in _KALDI)
    tables = [name for name in used if name in files.names]
    notes = [f"tables: {', '.join(name.rpartition('/')[2] for name in tables)}", *_others(first, folders)]
    return Layout(
        "Kaldi data directory",
        {"kind": "kaldi", "uri": place(files, first)},
        (*used, *AUDIO_PATTERNS, "*.ark"),
        tuple(notes),
        group_by="speaker" if any(name.endswith("utt2spk") for name in tables) else "",
    )


def nemo_tarred(files: FileList) -> Layout | None:
    """Tars of NeMo with their manifests."""
    folders = [match[1] or "" for name in files.names if (match := _SHARDED.fullmatch(name))]
    if not folders:
        return None
    folder = min(folders, key=len).rstrip("/")
    used = ("audio*_*.tar", "manifest*_*.json", "tarred_audio_manifest.json")
    return Layout("tarred NeMo manifest", {"kind": "nemo", "uri": place(files, folder)}, used)


def nemo(files: FileList) -> Layout | None:
    """Manifests of NeMo."""
    found = [name for name, row in _objects(files) if row.keys() & {"audio_filepath", "audio_file"}]
    source = {"kind": "nemo", "uri": _list(files, found)}
    return Layout("NeMo manifest", source, (*found, *AUDIO_PATTERNS)) if found else None


def lhotse(files: FileList) -> Layout | None:
    """Manifests of Lhotse: Shar, cuts, or recordings with supervisions."""
    source: dict[str, Any]
    if shar := [name for name in files.names if _SHAR_CUTS.fullmatch(name)]:
        folder = folder_of(shar[0])
        source = {"kind": "lhotse", "uri": f"{place(files, folder)}/cuts.*.jsonl.gz"}
        return Layout("Lhotse Shar", source, ("cuts.*.jsonl.gz", "recording.*.tar"))
    forms = [(name, _lhotse_form(row)) for name, row in _objects(files)]
    cuts = [name for name, form in forms if form == "cuts"]
    tables = cuts or [name for name, form in forms if form in {"recordings", "supervisions"}]
    if not any(form in {"cuts", "recordings"} for _, form in forms):
        return None
    source = {"kind": "lhotse", "uri": _list(files, tables)}
    if not cuts and all(form != "supervisions" for _, form in forms):
        source["options"] = {"supervisions": "columns"}
    name = "cuts" if cuts else "recordings and supervisions"
    return Layout(f"Lhotse {name}", source, (*tables, *AUDIO_PATTERNS), group_by="speaker")


def parquet(files: FileList) -> Layout | None:
    """Parquet files with a column of audio, as Hugging Face data sets have them."""
    import polars as pl  # noqa: PLC0415 - not for other layouts

    def has_audio(name: str) -> bool:
        if not files.is_file(name):
            return False
        try:
            types = pl.scan_parquet(files.root / name, glob=False).collect_schema().dtypes()
        except (OSError, pl.exceptions.PolarsError):
            return False
        return any({field.name for field in getattr(kind, "fields", ())} >= {"bytes", "path"} for kind in types)

    return _by_folder(files, ".parquet", has_audio, "Parquet with a column of audio", lambda _: {"kind": "parquet"})


def webdataset(files: FileList) -> Layout | None:
    """Plain tars with audio."""
    return _by_folder(
        files,
        ".tar",
        lambda name: any(
            member.lower().endswith(tuple(end[1:] for end in AUDIO_PATTERNS)) for member in files.members(name)
        ),
        "WebDataset tars",
        lambda name: {"kind": "webdataset", **_tar_options(files.members(name))},
    )


def tfrecord(files: FileList) -> Layout | None:
    """TFRecord files, by their names: the folder that has the most."""
    found = Counter(folder_of(name) for name in files.names if _TFRECORD.fullmatch(name))
    if not found:
        return None
    folder, _ = found.most_common(1)[0]
    uri = str(files.path) if files.path.is_file() else place(files, folder)
    used = f"{folder}/*.tf*".removeprefix("/")
    return Layout("TFRecord files", {"kind": "tfrecord", "uri": uri}, (used,), tuple(_others(folder, found)))


def _by_folder(
    files: FileList,
    extension: str,
    is_one: Callable[[str], bool],
    layout: str,
    source: Callable[[str], dict[str, Any]],
) -> Layout | None:
    """The layout of the folder that has the most files of an extension, if one of its first files is one."""
    found = Counter(folder_of(name) for name in files.names if name.endswith(extension))
    for folder, _ in found.most_common():
        names = (name for name in files.names if name.endswith(extension) and folder_of(name) == folder)
        if first := next(filter(is_one, islice(names, _MOST_HEADS)), None):
            uri = str(files.path) if files.path.is_file() else place(files, folder)
            used = f"{folder}/*{extension}".removeprefix("/")
            return Layout(layout, {**source(first), "uri": uri}, (used,), tuple(_others(folder, found)))
    return None


def _tar_options(members: Sequence[str]) -> dict[str, Any]:
    """`options` of kind webdataset: where keys end, and which audio fields there are."""
    split = [found for member in members if (found := split_name(member)) is not None]
    counts = Counter(field for _, field in split if "." in field)
    if counts and max(counts.values()) == 1:  # the parts before the extension belong to keys
        return {"options": {"key_at": KeyAt.LAST_DOT.value}}
    ends = tuple(end[1:] for end in AUDIO_PATTERNS)
    named = sorted({field.rpartition(".")[0] for _, field in split if field.endswith(ends)})
    is_plain = any(f".{field}" in ends for _, field in split)
    return {"options": {"audio_fields": named}} if named and not is_plain else {}


def _objects(files: FileList) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The first object of each file of JSON Lines."""
    names = [name for name in files.others if name.lower().endswith(_JSON_LINES)]
    for name in names[:_MOST_HEADS]:
        if row := first_object(files.lines(name)):
            yield name, row


def first_object(lines: Sequence[str]) -> Mapping[str, Any]:
    """The first object of JSON Lines or of an array; empty for anything else."""
    text = "\n".join(lines).removeprefix("[").lstrip()
    try:
        content, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _lhotse_form(row: Mapping[str, Any]) -> str:
    if row.keys() >= {"sources", "sampling_rate"}:
        return "recordings"
    if "recording_id" in row and "type" not in row:
        return "supervisions"
    return "cuts" if str(row.get("type", "")).endswith("Cut") else ""


def folder_of(name: str) -> str:
    """The folder of a file below the root; empty for the root itself."""
    return name.rpartition("/")[0]


def place(files: FileList, name: str) -> str:
    """The absolute path of a file or folder below the root."""
    return str(files.root / name) if name else str(files.root)


def _list(files: FileList, names: Sequence[str]) -> str:
    """One text for several files: with braces where the name of their folder has characters of patterns."""
    folders = {place(files, folder_of(name)) for name in names}
    if len(names) > 1 and len(folders) == 1 and any(map(_IN_PATTERNS.search, folders)):
        return f"{folders.pop()}/{{{','.join(name.rpartition('/')[2] for name in names)}}}"
    return ",".join(place(files, name) for name in names)


def _others(chosen: str, folders: Iterable[str]) -> list[str]:
    rest = sorted({folder or "." for folder in folders if folder != chosen})
    return [f"not read, adopt each by itself: {', '.join(rest)}"] if rest else []
