"""Gives the shards or samples of a snapshot to an exporter, in order, and publishes what it wrote."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import cast

import numpy as np

from headrace.errors import ConfigError, NotFoundError
from headrace.exports.exporter import COPY, ExportFields, ExportShard, SampleExporter, ShardExporter, Takes
from headrace.exports.folder import ExportFolder
from headrace.exports.kinds import open_exporter
from headrace.exports.selected import SelectedSamples, Selection
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.beside.column_table import ColumnSpec
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot, snapshot_numbers
from headrace.format.tars.member_names import audio_field
from headrace.locate.outputs import COLUMNS, ITSELF, ShardFolder, output_of, table_of_tars
from headrace.stores.storage import Storage, open_storage

_METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Export:
    """The result of an export.

    Attributes:
        to: name of the form.
        snapshot: number of the snapshot.
        num_shards: files with samples.
        num_samples: samples, those that a view repeats counted as often.
        num_linked: files that are hard links; the others are copies.
        num_removed: such files of an earlier export that were removed.
    """

    to: str
    snapshot: int
    num_shards: int
    num_samples: int
    num_linked: int
    num_removed: int


def export_snapshot(
    source: Storage,
    target: Storage,
    to: str = "webdataset",
    selection: Selection | None = None,
    progress: Callable[[], object] = lambda: None,
) -> Export:
    """Export a snapshot of a shard folder to another folder.

    A target with an earlier export is updated: each file is replaced as a whole, and files that are no longer wanted
    are removed at the end. The mark lists all of them before the first one is changed, so an interrupted export can be
    continued, and files that no export wrote stay.

    Args:
        source: the shard folder.
        target: the folder to export to.
        to: name of the form (`kinds`).
        selection: what to export; None for all of the newest snapshot.
        progress: called after each shard or sample.

    Raises:
        NotFoundError: the folder has no such snapshot, or something that was named does not exist.
        ConfigError: there is no such form or split, no sample is selected, a repetition would be called like another
            sample, the form cannot hold what was selected, the shards are columns, or the target holds files that no
            export wrote.
        FormatError: the target's mark cannot be read.
    """
    opened = _Opened.of(source, selection or Selection())
    if snapshot_numbers(target):
        raise ConfigError(f"{target.uri}: is a shard folder that Headrace builds; export to another folder")
    fields = opened.fields()
    if not sum(fields.splits.values()):
        raise opened.nothing_selected()
    opened.check_names()
    folder = ExportFolder(target)
    exporter = open_exporter(to, folder)
    takes = exporter.begin(fields)
    with folder:
        if takes is Takes.SHARDS:
            of_shards = cast("ShardExporter", exporter)
            for shard in opened.shards:
                of_shards.add_shard(shard)
                progress()
        else:
            of_samples = cast("SampleExporter", exporter)
            for sample in opened.read():
                of_samples.add(sample)
                progress()
        written = exporter.finish()
        num_removed = folder.publish()
    return Export(to, fields.snapshot, written.num_files, sum(fields.splits.values()), written.num_linked, num_removed)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A selection of a shard folder at one snapshot.

    Attributes:
        source: the folder.
        output: name of the output that it belongs to.
        selection: what is selected, with the number of the snapshot.
        snapshot: the snapshot.
        shards: its shards; of a view those with samples that it takes, and all others with no rows.
        samples: the samples; None until they are needed.
    """

    source: Storage
    output: str
    selection: Selection
    snapshot: NumberedSnapshot
    shards: list[ExportShard]
    samples: SelectedSamples | None

    @classmethod
    def of(cls, source: Storage, selection: Selection) -> "_Opened":
        output = output_of(source.uri, ShardFolder(ITSELF, source, ()))
        number, samples = selection.snapshot, None
        if not selection.is_whole:
            samples = SelectedSamples(source.uri, output, selection)
            number = samples.snapshot
        snapshot = read_snapshot(source, number)
        shards = list(_shards(source, snapshot, selection.split))
        if selection.view is not None and samples is not None:
            rows = samples.rows()
            none = np.zeros(0, np.int64)
            shards = [replace(shard, rows=rows.get(shard.name, none)) for shard in shards]
        return cls(source, output, replace(selection, snapshot=snapshot.number), snapshot, shards, samples)

    def read(self) -> SelectedSamples:
        """The samples."""
        return self.samples or SelectedSamples(self.source.uri, self.output, self.selection)

    def nothing_selected(self) -> ConfigError:
        """The error for a selection without samples, which most readers of exports reject."""
        view, split = self.selection.view, self.selection.split
        named = " of ".join([f"view {view!r}"] * (view is not None) + [f"split {split!r}"] * (split is not None))
        way_out = "name another snapshot by --snapshot"
        if split is not None:
            others = ", ".join(name for name in self.snapshot.snapshot.splits if name != split)
            way_out = f"name another split ({others}), or leave out --split" if others else "leave out --split"
        return ConfigError(
            f"{self.source.uri}, snapshot {self.snapshot.number}: {named or 'the snapshot'} has 0 samples, so there is "
            f"nothing to export; {way_out}"
        )

    def check_names(self) -> None:
        """Raise `ConfigError` if a repetition would be called like another sample."""
        if not any((np.diff(shard.rows) == 0).any() for shard in self.shards if shard.rows is not None):
            return
        alike = {key for keys in self._keys() for key in keys if COPY in key}
        for keys in self._keys() if alike else ():
            for key, count in Counter(keys).items():
                if taken := alike.intersection(f"{key}{COPY}{copy}" for copy in range(1, count)):
                    raise ConfigError(
                        f"{self.source.uri}: view {self.selection.view!r} repeats sample {key!r}, and {min(taken)!r}, "
                        "as the repetition would be called, is another sample's key; give it another key, or leave "
                        "either sample out of the view"
                    )

    def _keys(self) -> Iterator[list[str]]:
        """The keys that a view takes from each shard; one that it repeats comes as often."""
        return (shard.index().keys_of(shard.rows) for shard in self.shards if shard.rows is not None)

    def fields(self) -> ExportFields:
        splits: dict[str, int] = {}
        num_bytes = 0.0
        for shard in self.shards:
            given = shard.num_samples if shard.rows is None else len(shard.rows)
            splits[shard.split] = splits.get(shard.split, 0) + given
            num_bytes += shard.num_bytes * given / max(shard.num_samples, 1)
        stored_bytes = sum(shard.num_bytes for shard in self.shards)
        return ExportFields(
            name=PurePosixPath(self.output).name or "dataset",
            snapshot=self.snapshot.number,
            splits=splits,
            num_bytes=int(num_bytes),
            shard_bytes=max(stored_bytes // max(len(self.shards), 1), 1 << 20),
            audio=self._audio_fields(),
            columns=self._columns(),
            sets=self.selection.columns,
            latents={} if self.samples is None else self.samples.outputs,
            view=self.selection.view,
        )

    def _audio_fields(self) -> tuple[str, ...]:
        """Names of the audio fields, from the index of the first shard."""
        if not self.shards:
            return ()
        index = read_index(self.source, self.shards[0].name)
        return index.audio_fields or (() if audio_field(index.fields) is None else ("audio",))

    def _columns(self) -> tuple[ColumnSpec, ...] | None:
        """The columns of the user's table, without facts, and those that are joined; None without a set `metadata`."""
        joined = () if self.samples is None else self.samples.columns
        try:
            known = fitting_columns(open_storage(f"{self.output}/{COLUMNS}/{_METADATA}"), self.snapshot.snapshot).specs
        except NotFoundError:
            return None
        own = [spec for spec in known if not spec.is_fact]
        return (*own, *(spec for spec in joined if spec.name not in {one.name for one in own}))


def _shards(source: Storage, snapshot: NumberedSnapshot, split: str | None) -> Iterator[ExportShard]:
    """The shards of a snapshot, in order."""
    table, rows = table_of_tars(source, snapshot, split)
    for row in range(len(table))[rows]:
        own = table.splits[table.split[row]]
        num_samples, num_bytes = int(table.num_samples[row]), int(table.num_bytes[row])
        yield ExportShard(own, table.prefix, source, table.name(row), num_samples, num_bytes)
