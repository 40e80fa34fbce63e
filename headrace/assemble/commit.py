"""Commits what all partitions hold as the next snapshot of a shard folder.

A snapshot is committed only if every partition of the layout is up to date. If another writer commits first, the
decision is made again.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import TypeVar

from headrace.assemble.latents import LatentSettings
from headrace.assemble.partition_columns import ColumnSettings, columns_source
from headrace.assemble.reconcile import wanted_latents
from headrace.assemble.staleness import plan_build
from headrace.errors import AlreadyExistsError, BuildError, NotFoundError, StaleError
from headrace.format.beside.column_files import SPECS_KEY, read_columns
from headrace.format.beside.labels import LABELS_KEY, appended, labels_in
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import KnownManifest, Manifest, NumberedManifest, read_manifest
from headrace.format.shards.condemned import lasting_sizes
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import (
    NumberedSnapshot,
    Snapshot,
    read_snapshot,
    snapshot_numbers,
    snapshot_path,
)
from headrace.format.snapshots.summaries import newest_summaries
from headrace.format.tensors.outputs import OUTPUTS
from headrace.format.typed_json import json_value
from headrace.stores.storage import Storage

_ATTEMPTS = 5
_SHOWN = 5
_Committed = TypeVar("_Committed")


def commit_partitions(
    storage: Storage, wanted: Mapping[str, str], catalog: str
) -> tuple[NumberedSnapshot, bool, dict[str, NumberedManifest]]:
    """Commit the snapshot of a folder of audio shards.

    Args:
        storage: the shard folder.
        wanted: every partition of the layout and the digest that its manifest must carry. Partitions that left the
            layout are not in it, and so not in the snapshot.
        catalog: digest of the catalog that `wanted` was computed from.

    Returns:
        The newest snapshot, whether it is new, and those of its manifests that have rejected recordings.

    Raises:
        StaleError: partitions are missing or were built from other input.
        BuildError: every recording is rejected, or other writers committed first five times in a row.
    """
    return _repeated(storage, lambda: _commit_partitions(storage, wanted, catalog))


def commit_latents(
    audio: Storage, storage: Storage, settings: LatentSettings, rows: Mapping[str, str] | None = None
) -> tuple[NumberedSnapshot, bool]:
    """Commit the snapshot of latents that belongs to the newest audio snapshot.

    Args:
        audio: the folder of audio shards.
        storage: the folder of this set of latents.
        settings: which encoder, and how its latents are stored.
        rows: see `headrace.assemble.reconcile.latent_sources`.

    Returns:
        The newest snapshot of latents, and whether it is new.

    Raises:
        StaleError: partitions are missing or were encoded from other audio or with another encoder.
        BuildError: other writers committed first five times in a row.
        NotFoundError: there is no audio snapshot yet.
    """
    return _repeated(storage, lambda: _commit_latents(audio, storage, settings, rows))


def commit_columns(
    audio: Storage, storage: Storage, name: str, rows: Mapping[str, str]
) -> tuple[NumberedSnapshot, bool]:
    """Commit the snapshot of a set of columns that belongs to the newest audio snapshot.

    Args:
        audio: the folder of audio shards.
        storage: the folder of this set of columns.
        name: name of the set.
        rows: partition → digest of the rows that its columns should be made from; a missing one means no rows.

    Returns:
        The newest snapshot of columns, and whether it is new.

    Raises:
        StaleError: partitions are missing or have columns of other audio or rows.
        BuildError: other writers committed first five times in a row.
        NotFoundError: there is no audio snapshot yet.
    """
    return _repeated(storage, lambda: _commit_columns(audio, storage, name, rows))


def _repeated(storage: Storage, attempt: Callable[[], _Committed]) -> _Committed:
    """The result of the first attempt that no other writer was faster than."""
    for _ in range(_ATTEMPTS):
        try:
            return attempt()
        except AlreadyExistsError:
            continue
    raise BuildError(f"{storage.uri}: other writers kept committing snapshots; stop them and build again")


def _commit_partitions(
    storage: Storage, wanted: Mapping[str, str], catalog: str
) -> tuple[NumberedSnapshot, bool, dict[str, NumberedManifest]]:
    plan = plan_build(wanted, newest_summaries(storage))
    if plan.stale:
        raise StaleError(
            f"{storage.uri}: {len(plan.stale)} of {len(wanted)} partitions are not built from the current catalog and "
            f"settings: {_named(plan.stale)}; materialize them (`headrace build` does), then this again"
        )
    committed, is_new = commit_snapshot(storage, plan.current, catalog, {}, partial(_check_some_samples, storage))
    return committed, is_new, _with_rejections(storage, committed.snapshot)


def _with_rejections(storage: Storage, snapshot: Snapshot) -> dict[str, NumberedManifest]:
    """The manifests of a snapshot that have rejections."""
    partitions = snapshot.partitions.items()
    return {name: read_manifest(storage, name, found.number) for name, found in partitions if found.num_rejected}


def _commit_latents(
    audio: Storage, storage: Storage, settings: LatentSettings, rows: Mapping[str, str] | None
) -> tuple[NumberedSnapshot, bool]:
    origin = read_snapshot(audio)
    wanted = wanted_latents(origin.snapshot.partitions, settings, rows)
    plan = plan_build(wanted, newest_summaries(storage))
    if plan.stale:
        raise StaleError(
            f"{storage.uri}: {len(plan.stale)} of {len(wanted)} partitions have no latents of audio snapshot "
            f"{origin.number}: {_named(plan.stale)}; build these partitions first"
        )
    facts = _origin(origin, storage, plan.current, settings)
    catalog = origin.snapshot.catalog
    return commit_snapshot(storage, plan.current, catalog, facts, lambda _: check_lasts(audio, origin))


def _commit_columns(
    audio: Storage, storage: Storage, name: str, rows: Mapping[str, str]
) -> tuple[NumberedSnapshot, bool]:
    origin = read_snapshot(audio)
    settings = ColumnSettings()
    wanted = {
        partition: settings.wanted(columns_source(frozen.digest, rows.get(partition, "")))
        for partition, frozen in origin.snapshot.partitions.items()
    }
    plan = plan_build(wanted, newest_summaries(storage))
    if plan.stale:
        raise StaleError(
            f"{storage.uri}: {len(plan.stale)} of {len(wanted)} partitions have no columns of audio snapshot "
            f"{origin.number} and the present rows: {_named(plan.stale)}; build these partitions first"
        )
    shard = _any_shard(storage, plan.current)
    facts = {
        **_audio_origin(origin),
        "set": name,
        SPECS_KEY: [] if shard is None else [asdict(spec) for spec in read_columns(storage, shard).specs],
        **_labels(storage, plan.current),
    }
    catalog = origin.snapshot.catalog
    return commit_snapshot(storage, plan.current, catalog, facts, lambda _: check_lasts(audio, origin))


def _labels(storage: Storage, manifests: Mapping[str, KnownManifest]) -> dict[str, object]:
    """The labels of all partitions, of which those that changed are read."""
    newest = read_snapshot(storage).snapshot if snapshot_numbers(storage) else None
    old = newest.partitions if newest else {}
    changed = {name: found for name, found in manifests.items() if name not in old or old[name].digest != found.digest}
    found = (_read(storage, name, found).labels for name, found in changed.items())
    labels = appended(labels_in(newest) if newest else {}, found)
    return {LABELS_KEY: labels} if labels else {}


def _audio_origin(audio: NumberedSnapshot) -> dict[str, object]:
    """Fields of a snapshot of latents or columns that name the audio snapshot that it belongs to."""
    return {"audio_snapshot": audio.number, "audio_fingerprint": audio.snapshot.fingerprint}


def _origin(
    audio: NumberedSnapshot, storage: Storage, manifests: Mapping[str, KnownManifest], settings: LatentSettings
) -> dict[str, object]:
    """Origin of latents in their snapshot: audio snapshot, encoder, frame rate."""
    name = _any_shard(storage, manifests)
    index = None if name is None else read_index(storage, name)
    named = [] if index is None else json_value(index.notes.get(OUTPUTS, "[]"))
    return {
        **_audio_origin(audio),
        "encoder": settings.encoder,
        "dtype": settings.dtype,
        "frame_rate_hz": 0.0 if index is None else index.latent_rate_hz,
        **({OUTPUTS: named} if named else {}),
    }


def _any_shard(storage: Storage, manifests: Mapping[str, KnownManifest]) -> str | None:
    """Name of the first shard of the first partition that has any; None without shards."""
    for partition, found in manifests.items():
        if shards := _read(storage, partition, found).shards:
            return shards[0].name
    return None


def _read(storage: Storage, partition: str, found: KnownManifest) -> Manifest:
    try:
        return read_manifest(storage, partition, found.number).manifest
    except NotFoundError as error:
        raise AlreadyExistsError(f"{error}; there is a newer manifest") from error


def check_lasts(audio: Storage, origin: NumberedSnapshot) -> None:
    """Check that the audio snapshot that latents or columns belong to exists and stays.

    Raises:
        AlreadyExistsError: a `gc` deleted it, or may delete it.
    """
    path = snapshot_path(origin.number)
    if path not in lasting_sizes(audio, path):
        raise AlreadyExistsError(f"{path}: gc removes this audio snapshot from {audio.uri}; take a newer one")


def _check_some_samples(storage: Storage, snapshot: Snapshot) -> None:
    """Raise `BuildError` if every recording is rejected: readers then keep the snapshot that they have."""
    if snapshot.num_samples:
        return
    manifests = _with_rejections(storage, snapshot).values()
    rejected = [refusal for numbered in manifests for refusal in numbered.manifest.refused]
    if not rejected:
        return
    shown = "; ".join(f"{refusal.path}: {refusal.reason}" for refusal in rejected[:_SHOWN])
    more = f"; and {len(rejected) - _SHOWN} more" if len(rejected) > _SHOWN else ""
    raise BuildError(
        f"{storage.uri}: no recording gives a sample, so there is nothing to commit; {len(rejected)} recordings are "
        f"rejected: {shown}{more}"
    )


def _named(stale: Mapping[str, str]) -> str:
    """The first stale partitions, and why they are stale."""
    named = ", ".join(f"{name} ({need})" for name, need in list(stale.items())[:_SHOWN])
    return named + (f" and {len(stale) - _SHOWN} more" if len(stale) > _SHOWN else "")
