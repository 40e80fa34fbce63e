"""Records the state of a data set before a build, and reads what the build changed.

`headrace.assemble.changes` compares the two states.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import dagster as dg

from headrace.assemble.audio_counts import AudioCounts
from headrace.assemble.changes import BuildChanges, BuildStep, ShardChanges, ShardsBefore, shard_changes
from headrace.catalog.compared.changes import compare_stored
from headrace.catalog.stored.parts import StoredCatalog, last_catalog
from headrace.format.manifests.manifests import Manifest, newest_manifest
from headrace.stores.storage import Storage
from headrace_dagster.build_command.runs import RunOutcome


@dataclass(frozen=True, slots=True)
class _Entry:
    """One kind of shards: their folder, their state before the build, and the partitions of the layout."""

    storage: Storage
    before: ShardsBefore
    layout: tuple[str, ...]


@dataclass(slots=True)
class Ledger:
    """The state of a data set before a build.

    Attributes:
        output: output of the data set.
        clock: returns seconds.
        before: the catalog before the build.
        began: the time of `clock` when the build began.
    """

    output: Storage
    clock: Callable[[], float]
    before: StoredCatalog | None = field(init=False)
    began: float = field(init=False)
    _entries: dict[dg.AssetKey, _Entry] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.before = last_catalog(self.output)

    def put_down(self, key: dg.AssetKey, storage: Storage, before: ShardsBefore, layout: Collection[str]) -> None:
        """Record the state of shards. If they are built twice, the first state counts, and the reasons of both."""
        first = self._entries[key].before if key in self._entries else before
        why = {name: first.why.get(name) or before.why[name] for name in {**first.why, **before.why}}
        self._entries[key] = _Entry(storage, ShardsBefore(first.manifests, first.sizes, why), tuple(layout))

    def changes(self, outcomes: Sequence[RunOutcome]) -> BuildChanges:
        """Changes that the runs of a build made, including a build that was stopped."""
        after = last_catalog(self.output)
        seconds: dict[dg.AssetKey, float] = {}
        for outcome in outcomes:
            seconds[outcome.key] = seconds.get(outcome.key, 0.0) + outcome.seconds
        started = [key for key, entry in self._entries.items() if entry.before.why and key not in seconds]
        audio: dict[dg.AssetKey, AudioCounts] = {}
        for outcome in outcomes:
            audio[outcome.key] = audio.get(outcome.key, AudioCounts()) + outcome.audio
        steps = [
            BuildStep(key.path[-1], spent, self._shards(key, outcomes), audio[key]) for key, spent in seconds.items()
        ]
        stopped = [BuildStep(key.path[-1], None, self._shards(key, outcomes)) for key in started]
        catalog = None if after is None else compare_stored(self.before, after)
        return BuildChanges(catalog, (*steps, *stopped), self.clock() - self.began)

    def _shards(self, key: dg.AssetKey, outcomes: Sequence[RunOutcome]) -> ShardChanges | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        done = {str(outcome.partition) for outcome in outcomes if outcome.key == key and not outcome.faults}
        after: dict[str, Manifest] = {}
        for name in entry.before.why:
            if (found := newest_manifest(entry.storage, name)) is not None:
                after[name] = found.manifest
        return shard_changes(entry.before, after, entry.layout, done)
