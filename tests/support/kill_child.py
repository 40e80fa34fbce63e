"""A build or a scan without Dagster, in a separate process that `test_kill` can kill at any moment."""

import time
from dataclasses import dataclass
from pathlib import Path
from threading import Semaphore
from unittest import mock

import polars as pl

from headrace.assemble.audio import build_partition
from headrace.assemble.commit import commit_partitions
from headrace.assemble.reconcile import shard_settings, wanted_partitions
from headrace.assemble.staleness import plan_build
from headrace.catalog.scanning.checkpoint import ScanCheckpoint
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.scanning.scan_workers import ReadingThreads
from headrace.catalog.stored.parts import existing_catalog, partition_recordings
from headrace.catalog.stored.storing import store_decode_rejects
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import load_config
from headrace.format.manifests.manifests import newest_manifests
from headrace.sources.listing import FileStamp
from headrace.sources.sources import Source
from headrace.stores.storage import Storage
from headrace_dagster.resources.storage import StorageResource


def build(yaml: Path) -> None:
    """Bring the dataset up to date, stage by stage, as `build.py` does."""
    config, stores = load_config(yaml), StorageResource()
    source, output, audio = stores.source(config), stores.output(config), stores.audio(config)
    update_catalog(config, source, None, output)
    catalog = existing_catalog(output)
    wanted = wanted_partitions(catalog.header.fingerprints, config)
    for partition in plan_build(wanted, newest_manifests(audio)).stale:
        recordings = partition_recordings(output, config, partition)
        build_partition(partition, recordings, shard_settings(config), source, audio, num_threads=2)
    _, _, manifests = commit_partitions(audio, wanted, catalog.header.digest)
    store_decode_rejects(catalog, manifests)


@dataclass(frozen=True)
class SlowSource:
    """A source whose files take some time to open. Writes the path of each opened file to a log.

    A file is opened only while fewer than `MOST_OPENED` others are opened and not kept, however busy the machine is.
    """

    source: Source
    log: Path
    seconds: float
    room: Semaphore

    def open_digested(self, path: str, stamp: FileStamp) -> object:
        """See `Source.open_digested`."""
        self.room.acquire()
        with self.log.open("a") as log:
            log.write(f"{path}\n")
        time.sleep(self.seconds)
        return self.source.open_digested(path, stamp)

    def __getattr__(self, name: str) -> object:
        """Everything else is the source's own."""
        return getattr(self.source, name)


MOST_OPENED = 4
"""Files that a scan has opened and not kept, when it is killed."""


class Keeping(ScanCheckpoint):
    """A checkpoint that keeps what is read after each file, and makes room for the next one."""

    room: Semaphore

    def __init__(self, output: Storage) -> None:
        super().__init__(output, seconds=0)

    def add(self, facts: pl.DataFrame, probe_version: str) -> bool:
        """See `ScanCheckpoint.add`."""
        is_kept = super().add(facts, probe_version)
        self.room.release(len(facts))
        return is_kept


def scan_slowly(yaml: Path, log: Path, seconds: float) -> None:
    """Update the catalog, and keep what is read after each file. `log` gets the path of each opened file."""
    config, stores = load_config(yaml), StorageResource()
    Keeping.room = Semaphore(MOST_OPENED)
    source = SlowSource(stores.source(config), log, seconds, Keeping.room)
    runtime = ScanRuntime(workers=ReadingThreads(2))
    with mock.patch("headrace.catalog.stored.update.ScanCheckpoint", Keeping):
        update_catalog(config, source, None, stores.output(config), runtime)
