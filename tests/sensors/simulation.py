"""A data set in simulated time: its source, its output and its runs, driven by the real sensors.

Runs take as long as the test says, from seconds to hours, and end in any order. A step does what the asset does: a scan
sees the source as it is when the scan begins; a partition is made from the catalog as it is when the step begins; a
commit refuses partitions that are not up to date. Nothing waits, and nothing is written.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count, cycle
from types import SimpleNamespace

import dagster as dg
import pytest

from headrace.assemble.reconcile import is_current
from headrace.config.dataset import DatasetConfig
from headrace.format.manifests.manifests import ManifestSummary
from headrace.sources.listing import FileStamp, Listing, stamps_of
from headrace_dagster.assets.events import INPUTS_TAG, short_digest
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.run_statuses import UNDER_WAY
from headrace_dagster.assets.tags import INPUT_TAG, PARTITION_TAG, WORK_TAG, partitions_of_run
from headrace_dagster.sensors import activity, due_work, source_changes, stale_partitions
from headrace_dagster.sensors.due_work import DueWorkReader
from headrace_dagster.sensors.missing_shards import SensorState

_BEGAN = 1_800_000_000.0
_NS = 10**9
_TICKS = (0.0, 40.0)  # seconds after each event; until the next event, nothing else can change what a tick decides
_DEFINITIONS = dg.Definitions()
_QUEUED, _STARTED = dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED
_SUCCESS, _FAILURE = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE


def config_of(num_partitions: int, partitions_per_run: int = 1) -> DatasetConfig:
    """A data set with the metadata, a table of columns, latents and a view."""
    return DatasetConfig(
        name="birds",
        source={"uri": "recordings", "settle_seconds": 0},
        output={"uri": "output"},
        splits={"train": 1.0},
        shards={"partitions": {"train": num_partitions}},
        columns=[{"name": "captions", "table": "captions.csv"}],
        latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}],
        views={"long": {"where": "seconds > 1"}},
        runs={"partitions_per_run": partitions_per_run},
    )


@dataclass
class SimulatedRun:
    """A run: its record, the assets and partitions that it has still to make, and how each of them ended."""

    run: dg.DagsterRun
    created: float
    steps: list[dg.AssetKey]
    partitions: tuple[str, ...]
    asked_for: str | None
    ended: float | None = None
    made: set[tuple[dg.AssetKey, str]] = field(default_factory=set)
    outdated: set[dg.AssetKey] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    @property
    def targets(self) -> set[tuple[dg.AssetKey, str]]:
        """Every asset and partition of the run; an asset without partitions has the partition ''."""
        return {(key, partition) for key in self.run.asset_selection for partition in self.partitions or ("",)}


@dataclass
class SimulatedSource:
    """The recordings of the source."""

    files: dict[str, int]

    def list(self) -> Iterator[Listing]:
        """All files, in chunks of two."""
        names = sorted(self.files)
        for start in range(0, len(names), 2):
            found = Listing()
            for name in names[start : start + 2]:
                found.add(f"{name}.wav", FileStamp(self.files[name], round(_BEGAN * _NS)))
            yield found


class World:
    """The data set, its runs, and the clock. Also the storage and the records that the sensors ask."""

    def __init__(self, config: DatasetConfig, seconds_of_steps: Iterable[float], hours: float = 1.0) -> None:
        self.dataset = ProjectDataset.named(config)
        self.config, self.keys, self.hours = config, self.dataset.keys, hours
        self.layout = list(config.partitioning().partition_keys())
        self.now, self.events, self.order = _BEGAN, [], count()
        self.files = dict.fromkeys(self.layout, 1)  # size of the one recording of each partition
        self.captions = dict.fromkeys(self.layout, 1)
        self.scanned: dict[str, int] | None = None
        self.rows: dict[str, int] = {}
        self.header, self.scan_inputs = 0, ""
        self.stages = ["audio", "columns metadata", "columns captions", "latents mel"]
        self.manifests: dict[str, dict[str, ManifestSummary]] = {stage: {} for stage in self.stages}
        self.recorded: dict[dg.AssetKey, dict[str, str]] = {}
        self.snapshots: dict[str, SimpleNamespace] = {}
        self.inputs: dict[dg.AssetKey, str] = {}
        self.runs: list[SimulatedRun] = []
        self.cursors: dict[str, str | None] = {}
        self.seconds, self.instance = cycle(seconds_of_steps), None

    # What the sensors read: storage, records, catalog.

    def source(self, config):
        return SimulatedSource(self.files)

    def output(self, config):
        return "output"

    def audio(self, config):
        return "audio"

    def latents(self, config, name):
        return f"latents {name}"

    def columns(self, config, name):
        return f"columns {name}"

    def folders(self, config):
        return {stage: stage for stage in self.stages}

    def parts(self, config):
        return {"audio": "audio", "latents mel": "latents mel"}

    def table_stamps(self, config):
        return {}

    def stamps(self, files):
        return stamps_of([f"{name}.wav" for name in files], files.values(), [round(_BEGAN * _NS)] * len(files))

    def catalog(self, *_):
        if self.scanned is None:
            return None
        seconds = self.hours * 3600
        digest = short_digest(str(self.scanned))
        return SimpleNamespace(fingerprints=self.fingerprints(), digest=digest, seconds=seconds)

    def fingerprints(self):
        return {name: f"v{self.scanned[name]}" for name in self.layout}

    def rows_of(self, stage):
        return self.rows if stage == "columns captions" else self.scanned

    def rows_of_set(self, output, catalog, name, config):
        return {partition: f"{name} {value}" for partition, value in self.rows_of(f"columns {name}").items()}

    def wanted(self, stage, partition):
        if stage == "audio":
            return f"audio v{self.scanned[partition]}"
        audio = self.manifests["audio"].get(partition)
        base = audio.digest if audio else "none"
        return f"{stage} {base} {self.rows_of(stage)[partition]}" if stage != "latents mel" else f"mel {base}"

    def wanted_columns(self, ready, rows):
        return {name: self.wanted(f"columns {rows[name].split()[0]}", name) for name in ready}

    def unrecorded(self, key, current):
        known = self.recorded.get(key, {})
        return {name for name, manifest in current.items() if known.get(name) != manifest.digest}

    def sound_since(self, key):
        return 0.0

    def has_index(self, key, newest):
        return self.inputs.get(key) == str(newest)

    def is_made_from(self, key, inputs):
        return self.inputs.get(key) == inputs

    def held(self):
        return str([str(self.snapshots.get(stage)) for stage in self.stages])

    def smoke_inputs(self, config, snapshots):
        return str([str(self.snapshots.get(stage)) for stage in ("audio", "latents mel")])

    def is_committed(self, newest, catalog, current, audio_snapshot=None):
        return newest is not None and (
            is_current(newest.snapshot, catalog, current) and newest.snapshot.origin == audio_snapshot
        )

    def outline(self):
        return short_digest(str(self.header), str(self.manifests), str(self.snapshots))

    def latest_scan(self, key):
        if not self.header:
            return None
        event = dg.AssetMaterialization(key, tags={INPUTS_TAG: self.scan_inputs})
        return SimpleNamespace(asset_materialization=event, run_id=str(self.header), timestamp=0.0)

    def get_run_records(self, filters=None, limit=None):
        found = []
        for number, run in enumerate(self.runs):
            if filters is not None and run.run.status not in (filters.statuses or [run.run.status]):
                continue
            tags = {} if filters is None else filters.tags or {}
            if all(run.run.tags.get(tag) in values for tag, values in tags.items()):
                at = datetime.fromtimestamp(run.created, UTC).replace(tzinfo=None)
                found.append(
                    SimpleNamespace(
                        dagster_run=run.run,
                        storage_id=number,
                        create_timestamp=at,
                        update_timestamp=at,
                        end_time=run.ended,
                    )
                )
        return found[::-1][:limit]

    # Time.

    def at(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something after some seconds."""
        heapq.heappush(self.events, (self.now + seconds, next(self.order), do))

    def settle(self) -> None:
        """Tick, and let runs end, until nothing is left to do."""
        while True:
            since, until = self.now, self.events[0][0] if self.events else float("inf")
            for pause in _TICKS:
                if since + pause < until:
                    self.now = since + pause
                    self.tick()
                    until = min(until, self.events[0][0] if self.events else until)
            if not self.events:
                return
            self.now, _, do = heapq.heappop(self.events)
            do()

    def tick(self) -> None:
        """One tick of both sensors."""
        for name, sensor in self.sensors.items():
            context = dg.build_sensor_context(
                instance=self.instance, cursor=self.cursors.get(name), definitions=_DEFINITIONS
            )
            result = sensor(context)
            if isinstance(result, dg.SensorResult):
                self.cursors[name] = result.cursor
                for request in result.run_requests or []:
                    self.start(request)

    def start(self, request: dg.RunRequest) -> None:
        """Queue a run. Raises if one in progress makes one of its assets, or if one did the same work before."""
        tags = {**request.tags, **({PARTITION_TAG: request.partition_key} if request.partition_key else {})}
        run = dg.DagsterRun(
            "__ASSET_JOB",
            str(next(self.order)),
            asset_selection=set(request.asset_selection),
            tags=tags,
            status=_QUEUED,
        )
        partitions = partitions_of_run(run, self.layout)
        found = SimulatedRun(run, self.now, list(request.asset_selection), partitions, request.tags.get(INPUT_TAG))
        for other in self.runs:
            if other.ended is None:
                assert not other.targets & found.targets, f"started twice: {found.targets & other.targets}"
            tokens = {value for tag, value in tags.items() if tag.startswith(WORK_TAG)}
            same = tokens & {value for tag, value in other.run.tags.items() if tag.startswith(WORK_TAG)}
            assert not same or other.outdated, f"{found.targets}: the same work as a run before"
        self.runs.append(found)
        self.at(next(self.seconds), lambda: self.go_on(found))

    def go_on(self, run: SimulatedRun) -> None:
        """Begin the next step of a run, or end the run."""
        run.run = run.run.with_status(_STARTED)
        while run.steps and self.is_skipped(run, run.steps[0]):
            run.outdated.add(run.steps.pop(0))
        if not run.steps:
            run.run, run.ended = run.run.with_status(_FAILURE if run.faults else _SUCCESS), self.now
            return
        key = run.steps.pop(0)
        finish = self.begin(run, key)

        def end() -> None:
            finish()
            self.go_on(run)

        self.at(next(self.seconds), end)

    def is_skipped(self, run: SimulatedRun, key: dg.AssetKey) -> bool:
        """Whether an asset of the run that this one is made from was outdated."""
        stage = self.stage_of(key)
        before = {self.partitioned(stage)} if stage else set(run.run.asset_selection)
        if key == self.keys.loader_smoke_test:
            before = {self.keys.sizes_index, self.keys.latents_index("mel")}
        if stage not in {None, "audio"}:
            before.add(self.keys.sizes_index)
        return bool(before & run.outdated)

    def stage_of(self, key: dg.AssetKey) -> str | None:
        """The stage whose snapshot an asset commits."""
        indexes = {self.index(stage): stage for stage in self.stages}
        return indexes.get(key)

    def index(self, stage):
        if stage == "audio":
            return self.keys.sizes_index
        return self.keys.latents_index("mel") if stage == "latents mel" else self.keys.columns_index(stage.split()[1])

    def partitioned(self, stage):
        if stage == "audio":
            return self.keys.audio_shards
        return self.keys.latent_shards("mel") if stage == "latents mel" else self.keys.columns(stage.split()[1])

    def begin(self, run: SimulatedRun, key: dg.AssetKey) -> Callable[[], None]:
        """Begin a step: what it reads, it reads now. Returns how it ends."""
        made = {self.partitioned(stage): stage for stage in self.stages}
        if key == self.keys.catalog:
            seen = dict(self.files), dict(self.captions)
            return lambda: self.scan(*seen)
        if key in made:
            wanted = [(name, self.wanted(made[key], name), self.scanned[name]) for name in run.partitions]
            return lambda: self.make(run, key, made[key], wanted)
        if (stage := self.stage_of(key)) is not None:
            return lambda: self.commit(run, key, stage)
        inputs = self.smoke_inputs(None, None) if key == self.keys.loader_smoke_test else self.held()
        return lambda: self.inputs.update({key: inputs})

    def scan(self, files, captions) -> None:
        if (files, captions) != (self.scanned, self.rows):
            self.header += 1
        self.scanned, self.rows = files, captions
        self.scan_inputs = short_digest(str(captions))

    def make(self, run, key, stage, wanted) -> None:
        audio, made = self.manifests["audio"], self.manifests[stage]
        for name, digest, version in wanted:
            if stage.startswith("columns") and audio[name].wanted != f"audio v{version}":
                self.outdate(run, key, f"{name}: the catalog has no sample")
                continue
            before = made.get(name)
            if before is None or before.wanted != digest:
                made[name] = ManifestSummary(1 + (before.number if before else 0), digest, f"digest of {digest}")
            self.recorded.setdefault(key, {})[name] = made[name].digest
            run.made.add((key, name))

    def commit(self, run, key, stage) -> None:
        made, audio = self.manifests[stage], self.snapshots.get("audio")
        stale = [name for name in self.layout if name not in made or made[name].wanted != self.wanted(stage, name)]
        if stage != "audio":
            is_of_audio = audio.snapshot.manifests == {n: m.number for n, m in self.manifests["audio"].items()}
            stale += [] if is_of_audio else ["the audio"]
        if stale:
            self.outdate(run, key, f"{stage}: {stale} are not up to date")
            return
        origin = None if stage == "audio" else audio.number
        numbers = {name: found.number for name, found in made.items()}
        newest, catalog = self.snapshots.get(stage), self.catalog().digest
        if newest is None or (newest.snapshot.manifests, newest.snapshot.catalog, newest.snapshot.origin) != (
            numbers,
            catalog,
            origin,
        ):
            content = SimpleNamespace(manifests=numbers, catalog=catalog, origin=origin)
            self.snapshots[stage] = SimpleNamespace(number=1 + (newest.number if newest else 0), snapshot=content)
        self.inputs[key] = str(self.snapshots[stage])

    def outdate(self, run: SimulatedRun, key: dg.AssetKey, what: str) -> None:
        """A step that cannot be done: superseded if a scan came after the run was asked for, failed otherwise."""
        run.outdated.add(key)
        if run.asked_for == str(self.header):
            run.faults.append(what)

    def change(self, *partitions: str, rows: bool = False) -> None:
        """Change the recordings of partitions, or their rows in the table of columns."""
        for name in partitions:
            (self.captions if rows else self.files)[name] += 1

    # What came of it.

    def made_by(self, key: dg.AssetKey) -> list[SimulatedRun]:
        """The runs that were asked to make an asset."""
        return [run for run in self.runs if key in run.run.asset_selection]

    def faults(self) -> list[str]:
        """The faults of all runs."""
        return [fault for run in self.runs for fault in run.faults]

    def is_up_to_date(self) -> bool:
        """Whether the last snapshots are of the source as it is."""
        audio = {name: found.wanted for name, found in self.manifests["audio"].items()}
        return (
            (self.scanned, self.rows) == (self.files, self.captions)
            and audio == {name: f"audio v{size}" for name, size in self.files.items()}
            and all(
                self.snapshots[stage].snapshot.manifests == {n: m.number for n, m in self.manifests[stage].items()}
                for stage in self.stages
            )
            and self.inputs[self.keys.dataset_report] == self.held()
            and all(run.run.status not in UNDER_WAY for run in self.runs)
        )


class _Clock(datetime):
    """The simulated time, for a module that asks `datetime`."""

    world: World

    @classmethod
    def now(cls, tz=None):
        return datetime.fromtimestamp(cls.world.now, tz)


@contextmanager
def simulated(world: World, instance: dg.DagsterInstance) -> Iterator[World]:
    """A block in which the sensors see this world."""
    replaced = {
        due_work: {
            "read_current_header": world.catalog,
            "wanted_partitions": lambda fingerprints, config: {n: f"audio {v}" for n, v in fingerprints.items()},
            "wanted_latents": lambda ready, settings, rows: {name: world.wanted("latents mel", name) for name in ready},
            "with_centroids": lambda latents, storage: latents,
            "rows_of_texts": lambda output, config, latents: None,
            "rows_of_set": world.rows_of_set,
            "wanted_columns": world.wanted_columns,
            "latent_settings": lambda latents: latents,
            "input_version": lambda config, output: str(world.header),
            "newest_summaries": lambda shards: dict(world.manifests[shards]),
            "newest_snapshot": world.snapshots.get,
            "is_committed": world.is_committed,
            "has_parts": lambda shards, snapshot: True,
            "has_true_sizes": lambda shards, snapshot: True,
            "smoke_inputs": world.smoke_inputs,
            "has_report": lambda *_: world.inputs.get(world.keys.dataset_report) == world.held(),
            "has_view": lambda *_: world.inputs.get(world.keys.view("long")) == world.held(),
            "waits": lambda dataset, output, name, absent=(): bool(absent),
        },
        stale_partitions: {
            "AssetRecords": lambda *_: world,
            "pending_runs": lambda *_: [],
            "failed_catalog": lambda *_: [],
        },
        source_changes: {
            "pending_runs": lambda *_: [],
            "read_current_header": world.catalog,
            "header_version": lambda output: str(world.header),
            "read_stamps": lambda *_: world.stamps(world.scanned),
            "source_inputs": lambda config, storage: short_digest(str(world.captions)),
            "time": SimpleNamespace(time=lambda: world.now, time_ns=lambda: round(world.now * _NS)),
        },
        activity: {"datetime": type("Clock", (_Clock,), {"world": world}), "bury_dead_runs": lambda *_: set()},
    }
    with pytest.MonkeyPatch.context() as patch:
        for module, names in replaced.items():
            for name, value in names.items():
                patch.setattr(module, name, value)
        patch.setattr(DueWorkReader, "outline", lambda reader: world.outline())
        patch.setattr(SensorState, "looked", lambda state, *_: state)
        patch.setattr(instance, "get_run_records", world.get_run_records)
        patch.setattr(instance, "get_latest_materialization_event", world.latest_scan)
        world.instance = instance
        world.sensors = {
            "source_changes": source_changes.source_changes_sensor(world.dataset, world),
            "stale_partitions": stale_partitions.stale_partitions_sensor(world.dataset, world),
        }
        yield world
