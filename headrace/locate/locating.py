"""Finds what one name leads to: an output of Headrace, one of its shard folders, or the tars of a plain WebDataset.

Loaders and commands all call `locate`, so that a name means the same everywhere, and one mistake is one error. Listings
and snapshots are read, never a tar.
"""

from dataclasses import dataclass, replace

from headrace.arguments import path
from headrace.errors import NoShardsError
from headrace.format.export_mark import check_exported
from headrace.format.manifests.manifests import is_shard_name
from headrace.format.tars.name_lists import expanded, shown
from headrace.locate.listing import is_web
from headrace.locate.names import is_pattern
from headrace.locate.no_shards import has_manifests, no_audio, no_shards, no_snapshots
from headrace.locate.outputs import ITSELF, ShardFolder, folders_of_output, meant_folder
from headrace.locate.tars import (
    PlainTars,
    indexed_folder,
    is_bucket_folder,
    tar_of_signed_url,
    tars_of_folder,
    tars_of_index,
    tars_of_names,
    tars_of_pattern,
)
from headrace.signed_urls import is_signed, unsigned
from headrace.stores.storage import Storage, Transfer, open_storage, pinned


@dataclass(frozen=True, slots=True)
class Location:
    """Target of a name. `folder` or `tars` is None, and both where an output holds no audio.

    Attributes:
        named: the name that the user gave, with `~` replaced and a revision of the Hub as commit.
        storage: the folder that was named; of a pattern, the folder in which it is looked for.
        folder: the shard folder whose samples are meant: the folder itself, or the audio of an output.
        tars: the tars of a plain WebDataset, or those that a pattern picks from an output.
        names_folder: whether the tars are those of a folder, not of a pattern or list.
    """

    named: str
    storage: Storage
    folder: ShardFolder | None = None
    tars: PlainTars | None = None
    names_folder: bool = False

    @property
    def is_output(self) -> bool:
        """Whether the root of an output was named, not one of its shard folders."""
        return self.tars is None and (self.folder is None or self.folder.name != ITSELF)

    def all_folders(self) -> list[ShardFolder]:
        """The shard folders with snapshots: the one that was named, or all of an output; empty for tars."""
        if self.is_output:
            return folders_of_output(self.storage)
        return [] if self.folder is None else [self.folder]

    def one_folder(self, wanted: str) -> ShardFolder:
        """The shard folder whose samples are meant.

        Args:
            wanted: what needs snapshots, for the message: "snapshot=3".

        Raises:
            ConfigError: these are tars.
            NoShardsError: this is an output without audio, or a build of this folder has not finished.
        """
        self.check_snapshots(wanted)
        if self.folder is None:
            raise self.lacks_audio()
        return self.folder

    def folder_of_samples(self, wanted: str) -> ShardFolder:
        """The folder of `one_folder`, or that with the snapshots of indexed tars; errors as there."""
        indexed = None if self.tars is None else self.tars.indexed
        return self.one_folder(wanted) if indexed is None else indexed

    def check_snapshots(self, wanted: str) -> None:
        """Raise `ConfigError` for tars, which have no snapshots; for `wanted` see `one_folder`."""
        self.check_built()
        if self.tars is not None:
            raise no_snapshots(self.named, wanted, None if self.tars.snapshot is None else self.storage)

    def check_built(self) -> None:
        """Raise `NoShardsError` for a folder that holds a part of the tars of a first build."""
        tars = self.tars if self.names_folder else None
        if tars is not None and is_shard_name(tars.names[0]) and has_manifests(tars.storage):
            raise no_shards(self.named, tars.storage)

    def lacks_audio(self) -> NoShardsError:
        """The error where an output without audio cannot be read."""
        return no_audio(self.named, [folder.storage for folder in self.all_folders()])


def locate(  # noqa: PLR0913 - a name, and what is wanted of it
    named: str,
    *,
    split: str | None = None,
    snapshot: int | None = None,
    transfer: Transfer | None = None,
    looks_for_index: bool = False,
    revision: str | None = None,
) -> Location:
    """Find what a user named.

    A folder with snapshots is that shard folder, and a folder whose `audio/` has snapshots is an output. Any other
    folder, and every glob, brace pattern, tar or `sizes.json`, means tars.

    Args:
        named: a local path or a URL of a store, or a list of tars as one name (`name_of_tars`). A
            revision of the Hub (`hf://`) becomes the commit that it is now.
        split: which tars are wanted; shard folders are located whole.
        snapshot: number of a snapshot that is wanted, to reject tars without snapshots; None for the newest.
        transfer: time limits of stores.
        looks_for_index: whether to look beside tars for the snapshots of `headrace index --columns`.
        revision: the commit to read where a text list names tars of the Hub without one; None for that of now.

    Raises:
        NoShardsError: the folder is missing or empty or holds something else, or no tar matches; the message says what
            is there instead. Or an export has not written all of it.
        NotFoundError: a tar, a `sizes.json` or the snapshot of tars is not there.
        NotAFileError: a tar's name leads to a broken link, a folder, a pipe or a device.
        ConfigError: the URL is not valid, no tar belongs to the split, a snapshot is wanted of tars without snapshots,
            a folder is on a web server that lists nothing, or a URL with a query names anything but a tar.
        FormatError: the `sizes.json` is not valid.
    """
    name = pinned(expanded(path("path", named)), transfer)
    if is_signed(name):
        tars = tar_of_signed_url(name, split, transfer)
        found = Location(unsigned(name), tars.storage, tars=tars)
    elif "\n" in name:
        tars = tars_of_names(name, split, transfer)
        found = Location(shown(name), tars.storage, tars=tars)
    elif is_pattern(name) and not is_bucket_folder(name, transfer):
        tars = tars_of_pattern(name, split, transfer, snapshot, revision)
        if not tars.names:
            raise no_shards(name, tars.storage)
        found = Location(name, tars.storage, tars=tars)
    else:
        found = _in_folder(name, open_storage(name, transfer), split, transfer)
    if found.tars is not None and looks_for_index and found.tars.indexed is None and not is_signed(name):
        found = replace(found, tars=replace(found.tars, indexed=indexed_folder(found.tars.storage)))
    if found.tars is not None and found.tars.indexed is None and _may_be_exported_to(found.tars.storage):
        check_exported(found.tars.storage)  # the tars of an index are known by their versions
    if found.tars is not None and found.tars.indexed is None and snapshot not in {None, found.tars.snapshot}:
        found.check_built()
        raise no_snapshots(name, f"snapshot={snapshot}")
    return found


def _in_folder(name: str, storage: Storage, split: str | None, transfer: Transfer | None) -> Location:
    if (folder := meant_folder(storage)) is not None:
        return Location(name, storage, folder)
    tars = tars_of_folder(storage, split)
    if tars.names:
        return Location(name, storage, tars=tars, names_folder=True)
    if (indexed := indexed_folder(storage)) is not None:
        return Location(name, storage, tars=tars_of_index(indexed, split, transfer))
    if folders_of_output(storage):
        return Location(name, storage)
    raise no_shards(name, storage)


def _may_be_exported_to(storage: Storage) -> bool:
    """Whether exports write to a store: not to the Hub and web servers, where a request is a wait before all others."""
    return not is_web(storage) and not storage.uri.startswith("hf://")
