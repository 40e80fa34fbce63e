"""Exports Lhotse Shar: `recording.000000.tar` with audio and recording manifests, in step with `cuts.000000.jsonl.gz`.

Each split is a folder of its own, also a single one: Lhotse takes every file in a folder for a field, so the mark of
the export must not be beside them.
"""

import json
import zlib
from typing import Any

from headrace.errors import ConfigError
from headrace.exports.exporter import ExportAudio, ExportFields, ExportSample, Takes, Written, user_metadata
from headrace.exports.folder import ExportFolder
from headrace.exports.tar_series import TarSeries, WrittenTar

_GZIP = 31  # of zlib; the header of `gzip.compress` differs between versions of Python
_OF_SUPERVISION = ("text", "language", "speaker", "gender")


class LhotseExporter:
    """A cut for each sample, with one supervision. See `exporter.Exporter`."""

    def __init__(self, folder: ExportFolder) -> None:
        self._folder = folder
        self._lines: list[bytes] = []

    def begin(self, fields: ExportFields) -> Takes:
        """See `Exporter.begin`."""
        fields.check_audio("lhotse")
        fields.check_no_latents("lhotse")
        self._fields = fields
        self._tars = TarSeries(self._folder, self._path, fields.shard_bytes, self._end)
        return Takes.SAMPLES

    def add(self, sample: ExportSample) -> None:
        """See `Exporter.add`."""
        (audio,) = sample.audio.values()
        recording = _recording(sample, audio)
        members = {f"{sample.name}.{audio.extension}": audio.blob, f"{sample.name}.json": _json(recording)}
        self._tars.add(sample.split, members)  # which may end a tar with the cuts before
        self._lines.append(_json(_cut(sample, recording)) + b"\n")

    def finish(self) -> Written:
        """See `Exporter.finish`."""
        self._tars.close()
        return Written(self._tars.num_tars)

    def _path(self, split: str, number: int) -> str:
        return f"{split}/recording.{number:06d}.tar"

    def _end(self, tar: WrittenTar) -> None:
        """Write the cuts of a tar that is complete."""
        path = f"{tar.split}/cuts.{tar.number:06d}.jsonl.gz"
        self._folder.write(path, zlib.compress(b"".join(self._lines), 9, _GZIP))
        self._lines = []


def _recording(sample: ExportSample, audio: ExportAudio) -> dict[str, Any]:
    if audio.num_channels <= 0:
        raise ConfigError(f"sample {sample.key!r}: its channels are unknown; build or index the data set again")
    channels = list(range(audio.num_channels))
    return {
        "id": sample.name,
        "sources": [{"type": "shar", "channels": channels, "source": ""}],
        "sampling_rate": sample.sample_rate_hz,
        "num_samples": audio.num_frames,
        "duration": sample.seconds,
        "channel_ids": channels,
    }


def _cut(sample: ExportSample, recording: dict[str, Any]) -> dict[str, Any]:
    """A `MonoCut`, or a `MultiCut` of several channels; columns that a supervision has are in the supervision."""
    metadata = user_metadata(sample.metadata)
    channels = recording["channel_ids"]
    channel = channels[0] if len(channels) == 1 else channels
    span = {"start": 0.0, "duration": recording["duration"], "channel": channel}
    own = {name: str(metadata[name]) for name in _OF_SUPERVISION if name in metadata}
    custom = {name: value for name, value in metadata.items() if name not in _OF_SUPERVISION}
    supervision = {"id": sample.name, "recording_id": sample.name, **span, **own}
    kind = "MonoCut" if len(channels) == 1 else "MultiCut"
    cut = {"id": sample.name, **span, "supervisions": [supervision], "recording": recording}
    return {**cut, **({"custom": custom} if custom else {}), "type": kind}


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()
