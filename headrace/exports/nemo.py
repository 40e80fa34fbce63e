"""Exports tarred data sets of NeMo: `audio_0.tar` …, `sharded_manifests/`, and `tarred_audio_manifest.json`.

A tar holds audio only, because NeMo rejects a file that is not in its manifest. Several splits are a folder each.
"""

import json
from typing import BinaryIO

from headrace.errors import ConfigError
from headrace.exports.exporter import ExportFields, ExportSample, Takes, Written, user_metadata
from headrace.exports.folder import ExportFolder
from headrace.exports.tar_series import TarSeries, WrittenTar

_OWN = ("audio_filepath", "audio_filename", "audio_file", "feature_file", "offset", "duration", "shard_id", "_skipme")
"""Names that NeMo reads in a manifest; metadata with these names was about the recording, not about the member."""


class NemoExporter:
    """Tars of audio with manifests. See `exporter.Exporter`."""

    def __init__(self, folder: ExportFolder) -> None:
        self._folder = folder
        self._lines: list[bytes] = []
        self._names: set[str] = set()
        self._all: dict[str, BinaryIO] = {}

    def begin(self, fields: ExportFields) -> Takes:
        """See `Exporter.begin`."""
        fields.check_audio("nemo")
        fields.check_no_latents("nemo")
        self._fields = fields
        self._tars = TarSeries(self._folder, self._path, fields.shard_bytes, self._end)
        return Takes.SAMPLES

    def add(self, sample: ExportSample) -> None:
        """See `Exporter.add`."""
        (audio,) = sample.audio.values()
        name = f"{sample.name.replace('/', '_').replace('.', '_')}.{audio.extension}"
        if name in self._names:
            raise ConfigError(f"sample {sample.key!r}: NeMo's form of its name, {name}, is that of another sample")
        self._names.add(name)
        number = self._tars.add(sample.split, {name: audio.blob})  # which may end a tar with the lines before
        own = {"audio_filepath": name, "duration": sample.seconds, "shard_id": number}
        row = {**own, **user_metadata(sample.metadata, ("headrace", *_OWN))}
        self._lines.append(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    def finish(self) -> Written:
        """See `Exporter.finish`."""
        self._tars.close()
        for split, file in self._all.items():
            with file:
                file.seek(0)
                self._folder.write(f"{self._fields.folder(split)}tarred_audio_manifest.json", file)
        return Written(self._tars.num_tars)

    def _path(self, split: str, number: int) -> str:
        return f"{self._fields.folder(split)}audio_{number}.tar"

    def _end(self, tar: WrittenTar) -> None:
        """Write the manifest of a tar that is complete."""
        path = f"{self._fields.folder(tar.split)}sharded_manifests/manifest_{tar.number}.json"
        self._folder.write(path, self._lines)
        if tar.split not in self._all:
            self._all[tar.split] = self._folder.scratch()
        self._all[tar.split].writelines(self._lines)
        self._lines = []
