"""Ends runs as superseded: what they were asked to make is not wanted any more.

A scan, or a change of the YAML, may come while a run is queued or works. Such a run does not fail and sends no alert:
the step ends without a materialization, later steps of the run are skipped, and the run has a tag that says so. The
sensors then ask for what is wanted now. A run that fails while its input is as it was asked for fails as always
(docs/design/0093).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import dagster as dg

from headrace.assemble.reconcile import shard_settings
from headrace.catalog.stored.column_header import header_path
from headrace.catalog.stored.header import HEADER_PATH, check_grouping, partition_in
from headrace.config.dataset import DatasetConfig
from headrace.errors import CatalogError, FormatError, HeadraceError, NotFoundError, StaleError
from headrace.format.manifests.manifests import newest_manifest
from headrace.stores.storage import Storage
from headrace_dagster.assets.events import short_digest
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.assets.tags import INPUT_TAG, SUPERSEDED_TAG, WORK_TAG

_Made = TypeVar("_Made")


class SupersededError(Exception):
    """A step cannot make what it was asked for, because its input changed. Ends the step, and is no failure."""


def input_version(config: DatasetConfig, output: Storage) -> str:
    """A digest that changes with the YAML, the catalog, or a table of columns that was imported. Reads no file."""
    tables = [file_version(output, header_path(entry.name)) for entry in config.columns]
    return short_digest(config.model_dump_json(), file_version(output, HEADER_PATH), *tables)


def wanted_audio(output: Storage, config: DatasetConfig, partition: str) -> str | None:
    """`Manifest.wanted` of up-to-date audio of a partition.

    Returns:
        The digest, or None if no catalog of these settings has the partition.
    """
    try:
        totals, entry = partition_in(output.read(HEADER_PATH), partition, HEADER_PATH)
        check_grouping(totals, config, HEADER_PATH)
    except (NotFoundError, CatalogError, FormatError):
        return None
    return shard_settings(config).wanted(entry.fingerprint)


@contextmanager
def while_audio_is_wanted(
    context: dg.AssetExecutionContext, config: DatasetConfig, output: Storage, partition: str
) -> Iterator[None]:
    """A block that makes the audio of a partition.

    Raises:
        SupersededError: the block failed, and meanwhile a scan found other recordings in the partition; or a sensor
            asked for the run, and the partition is gone.
    """
    before = wanted_audio(output, config, partition)

    def is_outdated() -> bool:
        is_gone = before is None and WORK_TAG in context.run.tags
        return is_gone or wanted_audio(output, config, partition) != before

    with _while_wanted(is_outdated):
        yield


@contextmanager
def while_audio_is_current(
    context: dg.AssetExecutionContext, config: DatasetConfig, keys: DatasetKeys, output: Storage, partition: str
) -> Iterator[None]:
    """A block that makes columns or latents from the audio of a partition.

    Raises:
        SupersededError: the block failed, and the audio is of another catalog, although this run made it, or a sensor
            asked for the run, which it does only when the audio is up to date.
    """

    def is_outdated() -> bool:
        was_current = WORK_TAG in context.run.tags or keys.audio_shards in (context.run.asset_selection or ())
        found = newest_manifest(output.at("audio"), partition)
        return was_current and (found is None or found.wanted != wanted_audio(output, config, partition))

    with _while_wanted(is_outdated):
        yield


@contextmanager
def _while_wanted(is_outdated: Callable[[], bool]) -> Iterator[None]:
    try:
        yield
    except HeadraceError as error:
        if is_outdated():
            raise SupersededError(str(error)) from error
        raise


def committed_unless_superseded(
    context: dg.AssetExecutionContext, config: DatasetConfig, output: Storage, commit: Callable[[], _Made]
) -> _Made | None:
    """The result of a commit.

    Returns:
        The result; None if partitions are not up to date because catalog, tables or YAML changed since a sensor asked
        for the run. The run then has the tag.

    Raises:
        HeadraceError: the commit failed for another reason.
    """
    try:
        return commit()
    except (StaleError, CatalogError) as error:
        asked_for = context.run.tags.get(INPUT_TAG)
        if asked_for is None or asked_for == input_version(config, output):
            raise
        note_superseded(context, str(error))
        return None


def note_superseded(context: dg.AssetExecutionContext, reason: str) -> None:
    """Write into the log of a run, and into its tags, that it is superseded."""
    context.log.warning("superseded, the input changed since this run was asked for: %s", reason)
    context.instance.add_run_tags(context.run.run_id, {SUPERSEDED_TAG: "the input changed"})


def file_version(output: Storage, path: str) -> str:
    """A string that changes with a file; empty while it does not exist."""
    try:
        return output.version(path)
    except NotFoundError:
        return ""
