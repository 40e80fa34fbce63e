"""The rows of Lhotse's cuts, recordings and supervisions. Pure.

Times of a supervision are relative to its recording, or to its cut if it is in one; those in a row are relative to the
sample. A supervision that begins before its cut, or ends after it, is cut there if it is a column, and whole if it is a
row; none begins before its recording.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from headrace.sources.corpus_rows import own_columns

_COLUMNS = ("text", "speaker", "language", "gender")
_ALIGNMENT = "alignment_"
_TAKEN = ("id", "path", "start", "duration", "end", "channel", "supervisions", *_COLUMNS)


class Supervisions(StrEnum):
    """Form of supervisions (`source.options.supervisions`)."""

    ROWS = "rows"
    """Each is a row."""
    COLUMNS = "columns"
    """They are columns of the row of their cut or recording."""


_Object = Mapping[str, Any]


def recording_rows(
    recordings: Mapping[str, tuple[_Object, str]], supervisions: Sequence[_Object], form: Supervisions
) -> Iterator[dict[str, Any]]:
    """The rows of recordings and supervisions.

    Args:
        recordings: id → the recording, and its path.
        supervisions: all supervisions. One of an unknown recording is a row whose path no recording has.
        form: whether the supervisions are rows or columns.
    """
    if form is Supervisions.ROWS:
        for supervision in supervisions:
            name = str(supervision.get("recording_id"))
            recording, path = recordings.get(name, ({}, f"recording#{name}"))
            yield _supervision_row(supervision, recording, path, 0.0)
        return
    grouped = defaultdict(list)
    for supervision in supervisions:
        grouped[str(supervision.get("recording_id"))].append(supervision)
    for name, (recording, path) in recordings.items():
        length = recording.get("duration")
        yield {"id": name, "path": path, **_columns(grouped.pop(name, []), length), **_custom(recording)}
    for name in grouped:
        yield {"id": name, "path": f"recording#{name}"}


def cut_rows(cut: _Object, path: str, form: Supervisions) -> Iterator[dict[str, Any]]:
    """The row of a cut, or of each of its supervisions.

    Args:
        cut: a `MonoCut` or `MultiCut`; of others, the path is one that no recording has.
        path: path of its recording.
        form: whether the supervisions are rows or columns.
    """
    recording, start = cut.get("recording") or {}, _number(cut.get("start"))
    supervisions = cut.get("supervisions") or []
    if form is Supervisions.ROWS:
        for supervision in supervisions:
            yield _supervision_row(supervision, recording, path, start)
        return
    span = {"start": start, "duration": cut.get("duration")}
    told = _channel(cut, recording)
    yield {"id": cut["id"], "path": path, **span, **told, **_columns(supervisions, cut.get("duration")), **_custom(cut)}


def _supervision_row(supervision: _Object, recording: _Object, path: str, offset: float) -> dict[str, Any]:
    """The row of a supervision, whose times begin at `offset` seconds of the recording."""
    begin = _number(supervision.get("start"))
    span = {
        "start": max(0.0, offset + begin),
        "duration": _number(supervision.get("duration")) + min(0.0, offset + begin),
    }
    said = {name: supervision.get(name) for name in _COLUMNS if name in supervision}
    aligned = _alignments(supervision, max(begin, -offset))
    about = {**_channel(supervision, recording), **said, **aligned, **_custom(supervision)}
    return {"id": supervision.get("id"), "path": path, **span, **about}


def _columns(supervisions: Sequence[_Object], length: float | None) -> dict[str, Any]:
    """The columns of a sample with supervisions: their texts joined, what they have in common, and all as intervals."""
    ordered = sorted(supervisions, key=lambda supervision: _number(supervision.get("start")))
    found: dict[str, Any] = {}
    for name in _COLUMNS:
        values = [supervision[name] for supervision in ordered if supervision.get(name) is not None]
        if name == "text":
            found[name] = " ".join(map(str, values)) if values else None
        else:
            found[name] = values[0] if values and len(set(map(str, values))) == 1 else None
    one = ordered[0] if len(ordered) == 1 else {}
    intervals = [_interval(supervision, length or 0.0) for supervision in ordered]
    return {**found, "supervisions": intervals, **_alignments(one, 0.0), **_custom(one)}


def _interval(supervision: _Object, length: float) -> dict[str, Any]:
    begin = _number(supervision.get("start"))
    end = max(0.0, begin + _number(supervision.get("duration")))
    end = min(end, length) if length > 0 else end
    span = {"start": min(max(0.0, begin), end), "end": end}
    return {**span, **{name: supervision.get(name) for name in ("id", *_COLUMNS)}}


def _alignments(supervision: _Object, begin: float) -> dict[str, Any]:
    """`alignment_word` and the like: intervals relative to the sample, which begins at `begin` seconds."""
    found = supervision.get("alignment") or {}
    return {f"{_ALIGNMENT}{kind}": [_aligned(item, begin) for item in items] for kind, items in found.items()}


def _aligned(item: Sequence[Any], begin: float) -> dict[str, Any]:
    symbol, start, duration, *score = item
    at = round(_number(start) - begin, 9)
    told = {"score": score[0]} if score and score[0] is not None else {}
    return {"start": at, "end": round(at + _number(duration), 9), "symbol": symbol, **told}


def _channel(owner: _Object, recording: _Object) -> dict[str, Any]:
    """The channels of a cut or supervision, where its recording has others as well."""
    sources = recording.get("sources") or [{}]
    there = recording.get("channel_ids") or sources[0].get("channels") or [0]
    wanted = owner.get("channel", 0)
    chosen = wanted if isinstance(wanted, list) else [wanted]
    return {} if sorted(there) == sorted(chosen) or len(there) == 1 else {"channel": wanted}


def _custom(owner: _Object) -> dict[str, Any]:
    """The user's own values of a cut or supervision, without arrays and recordings, which are files."""
    custom = owner.get("custom") or {}
    plain = {name: value for name, value in custom.items() if not (isinstance(value, dict) and "storage_path" in value)}
    aligned = (name for name in plain if name.startswith(_ALIGNMENT))
    return own_columns({name: value for name, value in plain.items() if not _is_recording(value)}, (*_TAKEN, *aligned))


def _is_recording(value: object) -> bool:
    return isinstance(value, dict) and "sources" in value


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
