"""Parses a JSON file that says how many samples each tar of a folder holds, such as `sizes.json`.

There are three forms: WebDataset's plain one, `{"a.tar": 50, …}`, which Headrace writes, that of `wids`,
`{"shardlist": [{"url": "a.tar", "nsamples": 50}, …]}`, and Energon's, `{"shard_counts": {"a.tar": 50, …}}`.
"""

from typing import Any

from headrace.errors import FormatError
from headrace.format.other_formats import recognised
from headrace.format.typed_json import json_value


def parse_sizes(blob: bytes, uri: str) -> dict[str, int]:
    """Path of each tar below the file's folder → number of samples, in the order of the file.

    Args:
        blob: the content of the file.
        uri: its whole name: for messages, and to make whole URLs in lists of `wids` relative.

    Raises:
        FormatError: it is not JSON, or has neither form; the message names the format that it belongs to, if known.
    """
    try:
        content = json_value(blob)
    except ValueError as error:
        raise FormatError(f"{uri}: not valid JSON ({error}); {_WAY_OUT}") from error
    listed = content.get("shardlist") if isinstance(content, dict) else None
    sizes = content if listed is None else _of_wids(listed, content.get("base"), uri)
    if isinstance(sizes, dict) and isinstance(sizes.get("shard_counts"), dict):
        sizes = sizes["shard_counts"]
    if not isinstance(sizes, dict) or not all(_is_count(count) for count in sizes.values()):
        other = recognised([uri.rpartition("/")[2]], blob)
        raise FormatError(
            f'{uri}: expected {{"file.tar": samples, …}} or {{"shardlist": [{{"url": …, "nsamples": …}}, …]}}; '
            f"{_WAY_OUT if other is None else f'it belongs to {other.what}: {other.way_out}'}"
        )
    return sizes


ENERGON_SIZES = ".nv-meta/.info.json"
"""Path of Energon's counts, below the folder that its paths of tars are relative to."""
_COUNTS = range(1 << 31)
_WAY_OUT = "write it again with `headrace index`, or name the tars by a glob or brace pattern"


def _is_count(value: object) -> bool:
    return type(value) is int and value in _COUNTS


def _of_wids(listed: Any, base: Any, uri: str) -> dict[str, Any] | None:  # noqa: ANN401 - anybody's JSON
    """Counts by path below the file's folder; None if an entry has another form."""
    sizes: dict[str, Any] = {}
    folder = uri.rpartition("/")[0]
    try:
        for entry in listed:
            url = f"{base.rstrip('/')}/{entry['url']}" if base else str(entry["url"])
            name = url.removeprefix(f"{folder}/")
            if "://" in name or (name.startswith("/") and "://" in uri):
                raise FormatError(
                    f"{uri}: lists {url}, which is not below its folder; name the tars by a glob or brace pattern"
                )
            if name in sizes:
                raise FormatError(f"{uri}: lists {name} twice; {_WAY_OUT}")
            sizes[name] = entry["nsamples"]
    except (AttributeError, KeyError, TypeError):
        return None
    return sizes
