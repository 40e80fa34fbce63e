"""The contract of exporters, as a class of tests to subclass: what every export must do, whatever its form is."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import soundfile

from headrace.errors import HeadraceError
from headrace.exports.exporter import (
    ExportAudio,
    Exporter,
    ExportFields,
    ExportSample,
    ExportShard,
    SampleExporter,
    ShardExporter,
    Takes,
    Written,
)
from headrace.exports.folder import ExportFolder
from headrace.format.beside.column_table import ColumnKind, ColumnSpec
from headrace.format.indexes.index_entries import SampleEntry
from headrace.format.shards.writer import ShardPlace, ShardWriter
from headrace.stores.storage import LocalStorage, Storage, open_bucket

_RATE_HZ = 8000
_PER_SHARD = 3


class _InterruptedError(Exception):
    """A writer was killed."""


class ExporterContract:
    """The contract of every exporter. A subclass has `make` and `read`."""

    def make(self, folder: ExportFolder) -> Exporter:
        """The exporter for a folder."""
        raise NotImplementedError

    def read(self, folder: Path, split: str) -> list[tuple[str, bytes]]:
        """Name (`ExportSample.name`) and audio file of each sample of a split, in the order of an export's reader."""
        raise NotImplementedError

    def test_every_sample_is_exported_in_snapshot_order(self, tmp_path: Path) -> None:
        """A reader of the form gets the samples of each split, with the same bytes."""
        samples = corpus()
        self._export(samples, tmp_path / "out", tmp_path)
        for split in ("test", "train"):
            found = self.read(tmp_path / "out", split)
            assert found == [(one.name, one.audio["audio"].blob) for one in samples if one.split == split]

    def test_equal_samples_give_equal_files(self, tmp_path: Path) -> None:
        """Two exports of a snapshot are the same, byte for byte."""
        for name in ("a", "b"):
            self._export(corpus(), tmp_path / name, tmp_path)
        assert _files(tmp_path / "a") == _files(tmp_path / "b")

    def test_a_repeated_export_holds_what_is_new_alone(self, tmp_path: Path) -> None:
        """Files of an earlier export are replaced and removed, and files of others stay."""
        out, fresh = tmp_path / "out", tmp_path / "fresh"
        self._export(corpus(12), out, tmp_path)
        (out / "mine.txt").write_text("mine")
        self._export(corpus(4), out, tmp_path)
        assert (out / "mine.txt").read_text() == "mine"
        (out / "mine.txt").unlink()
        self._export(corpus(4), fresh, tmp_path)
        assert _files(out) == _files(fresh)

    def test_a_bucket_gets_the_same_files(self, tmp_path: Path) -> None:
        """A bucket, which cannot rename files, holds what a folder does, also after an earlier export."""
        bucket = open_bucket("memory://")
        for count in (12, 4):
            self._export(corpus(count), bucket, tmp_path)
        self._export(corpus(4), tmp_path / "out", tmp_path)
        there = [entry.path for page in bucket.pages() for entry in page]
        assert {path: bucket.read(path) for path in there} == _files(tmp_path / "out")

    def test_nothing_is_visible_of_an_interrupted_export(self, tmp_path: Path) -> None:
        """The target holds the export before, until the new one is complete."""
        out = tmp_path / "out"
        self._export(corpus(4), out, tmp_path)
        before = _files(out)
        for num_given in (0, 1, 5, 8):
            try:
                self._export(corpus(12), out, tmp_path, num_given)
            except _InterruptedError:
                assert _files(out) == before

    def test_repetitions_of_a_view_are_written_or_refused(self, tmp_path: Path) -> None:
        """A sample that a view takes twice comes twice, or the export says how it can be had."""
        samples = [corpus(2)[0], replace(corpus(2)[0], copy=1)]
        try:
            self._export(samples, tmp_path / "out", tmp_path, view="twice")
        except HeadraceError as error:
            assert "--to webdataset" in str(error)  # noqa: PT017 - both outcomes are right
            return
        found = self.read(tmp_path / "out", samples[0].split)
        assert found == [(one.name, one.audio["audio"].blob) for one in samples]

    def _export(
        self,
        samples: list[ExportSample],
        target: Path | Storage,
        work: Path,
        num_given: int | None = None,
        view: str | None = None,
    ) -> None:
        """Export samples; stopped after `num_given` samples or shards."""
        splits = {one.split: sum(other.split == one.split for other in samples) for one in samples}
        shards = list(_shards(samples, work / "shards"))
        num_bytes = sum(shard.num_bytes for shard in shards)
        column = ColumnSpec("text", ColumnKind.STRING)
        fields = ExportFields("tiny", 1, splits, num_bytes, columns=(column,), view=view)
        folder = ExportFolder(LocalStorage(target) if isinstance(target, Path) else target)
        exporter = self.make(folder)
        takes = exporter.begin(fields)
        with folder:
            given: Sequence[ExportShard | ExportSample] = shards if takes is Takes.SHARDS else samples
            for number, one in enumerate(given):
                if number == num_given:
                    raise _InterruptedError
                _give(exporter, one)
            written = exporter.finish()
            assert isinstance(written, Written)
            assert written.num_files > 0
            if num_given is not None:
                raise _InterruptedError
            folder.publish()


def corpus(count: int = 8) -> list[ExportSample]:
    """Samples of quiet noise in FLAC with a text, the same in each call: a quarter in `test`, the rest in `train`."""
    return [_sample(number, "test" if number < count // 4 else "train") for number in range(count)]


def _sample(number: int, split: str) -> ExportSample:
    noise = 0.1 * np.random.default_rng(number).standard_normal(400 + number)
    file = io.BytesIO()
    soundfile.write(file, noise, _RATE_HZ, format="FLAC", subtype="PCM_16")
    audio = ExportAudio("flac", file.getvalue(), len(noise), 1)
    metadata = {"text": f"text {number}", "headrace": {"num_frames": len(noise)}}
    return ExportSample(f"rec{number:03d}", 0, split, _RATE_HZ, {"audio": audio}, metadata)


def _shards(samples: list[ExportSample], folder: Path) -> Iterator[ExportShard]:
    """Shards of these samples, each without repetitions; `rows` says how often each comes if one comes twice."""
    storage = LocalStorage(folder)
    is_view = any(one.copy for one in samples)
    for split in dict.fromkeys(one.split for one in samples):
        own = [one for one in samples if one.split == split]
        stored = [one for one in own if not one.copy]
        for sequence, first in enumerate(range(0, len(stored), _PER_SHARD)):
            held = stored[first : first + _PER_SHARD]
            with ShardWriter(storage, ShardPlace(split, 0, sequence)) as writer:
                for one in held:
                    flac, text = one.audio["audio"].blob, json.dumps(one.metadata).encode()
                    facts = SampleEntry(one.key, {}, one.audio["audio"].num_frames, _RATE_HZ, 1)
                    writer.add(one.key, {"flac": (flac, len(flac)), "json": (text, len(text))}, facts)
                index = writer.publish("input", {})
            keys = [one.key for one in held]
            rows = np.array([keys.index(one.key) for one in own if one.key in keys], np.int64) if is_view else None
            yield ExportShard(split, "", storage, index.shard, len(index), index.num_bytes, rows)


def _give(exporter: Exporter, one: ExportShard | ExportSample) -> None:
    if isinstance(one, ExportShard):
        cast("ShardExporter", exporter).add_shard(one)
    else:
        cast("SampleExporter", exporter).add(one)


def _files(folder: Path) -> dict[str, bytes]:
    """All files below a folder, hidden ones as well."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
