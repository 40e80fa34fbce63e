"""Functions that drills run in child processes: builds, commands and training, on a good or a bad disk."""

import contextlib
import io
import json
import os
import random
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import headrace.catalog.judging.validation
import headrace.catalog.tables.metadata_files
import headrace.encoding.shards
import headrace.streaming.loader  # noqa: F401 - the server of processes imports this module: each of them has it then
from headrace import StreamingDataLoader, StreamingDataset, encoders, webdataset_loader
from headrace.assemble.audio import build_partition
from headrace.assemble.centroids import fit_and_store, newest_centroids, with_centroids
from headrace.assemble.column_sets import bring_columns_up_to_date, rows_of_texts
from headrace.assemble.column_tables import import_table
from headrace.assemble.commit import commit_latents, commit_partitions
from headrace.assemble.latents import build_latent_partition
from headrace.assemble.reconcile import latent_settings, shard_settings, wanted_partitions
from headrace.assemble.staleness import plan_build
from headrace.assemble.views import WantedView, build_view
from headrace.catalog.stored.parts import existing_catalog, partition_recordings
from headrace.catalog.stored.storing import store_decode_rejects
from headrace.catalog.stored.update import update_catalog
from headrace.cli import main
from headrace.config.dataset import load_config
from headrace.encoders.kmeans import parsed_settings
from headrace.encoding.plans import EncodingOptions
from headrace.errors import HeadraceError
from headrace.format.manifests.manifests import newest_manifests
from headrace.stores.storage import open_storage
from headrace.upkeep.gc import collect, find_garbage, find_leftovers, remove_leftovers
from headrace_dagster.resources.storage import StorageResource
from tests.support.drills.disk import Disk, Trouble, watch
from tests.support.streaming.corpus import Clip, clips

CORPUS = clips(53)
DAYS_SECONDS = 3 * 86_400.0


def build(yaml: Path) -> None:
    """Bring the data set up to date, stage by stage as `build.py` does: catalog, audio, columns, latents."""
    config, stores = load_config(yaml), StorageResource()
    source, output, audio = stores.source(config), stores.output(config), stores.audio(config)
    update_catalog(config, source, stores.metadata(config), output)
    catalog = existing_catalog(output)
    wanted = wanted_partitions(catalog.header.fingerprints, config)
    for partition in plan_build(wanted, newest_manifests(audio), damaged=_damaged(audio)).stale:
        recordings = partition_recordings(output, config, partition)
        build_partition(partition, recordings, shard_settings(config), source, audio, num_threads=2)
    _, _, manifests = commit_partitions(audio, wanted, catalog.header.digest)
    store_decode_rejects(catalog, manifests)
    for table in config.columns:
        stamp = stores.table_stamps(config)[table.table.uri]
        import_table(existing_catalog(output), config, table, stamp, partial(stores.column_table, table))
    for name in config.column_sets:
        bring_columns_up_to_date(output, config, name)
    for name in config.views:
        build_view(output, WantedView.of(config, name))
    for entry in config.latents:
        folder, (texts, _) = stores.latents(config, entry.name), config.text_column(entry)
        made = _with_centroids(entry, audio, folder)
        settings = latent_settings(made)
        for partition in wanted:
            build_latent_partition(
                partition,
                settings,
                lambda encoder=made.encoder: _loaded(encoder),
                audio,
                folder,
                options=EncodingOptions(num_threads=1),
                columns=stores.columns(config, texts) if texts else None,
            )
        commit_latents(audio, folder, settings, rows_of_texts(output, config, entry))


def _loaded(encoder):
    return [encoders.load(encoder.kind, encoder.settings)]


def _with_centroids(entry, audio, folder):
    """The latents with their centroids, which are fitted if there are none."""
    if entry.fits_centroids and newest_centroids(folder, form := parsed_settings(entry.encoder.settings)) is None:
        fit_and_store(audio, folder, form, "", "train", _loaded)
    return with_centroids(entry, folder)


def _damaged(audio):
    """Partitions with missing or truncated files, by the listing that the sensors use."""
    there = {entry.path: entry.num_bytes for entry in audio.list()}
    return {name for name, found in newest_manifests(audio).items() if not found.manifest.is_whole(there)}


def build_on(yaml: Path, folder: Path, moment: int | None, trouble: Trouble) -> tuple[int, str]:
    """`build` on a disk; returns its number of accesses, and which one was bad."""
    return _on(folder, moment, trouble, lambda: build(yaml))


def command_on(words: list[str], folder: Path, moment: int | None, trouble: Trouble) -> tuple[int, str, int, str]:
    """A command on a disk; returns accesses, the bad one, exit code and what was printed."""
    came: list[object] = []
    count, hit = _on(folder, moment, trouble, lambda: came.extend(command(words)))
    return count, hit, *came


def command(words: list[str]) -> tuple[int, str]:
    """Exit code of a command, and what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        code = main(words)
    return code, out.getvalue()


def gc_on(output: str, folder: Path | None, moment: int | None, trouble: Trouble) -> tuple[int, str]:
    """Do `gc` on a disk."""
    return _on(folder, moment, trouble, lambda: gc(output))


def gc(output: str) -> int:
    """Remove all snapshots except the newest, as of three days later. Returns how many files were removed."""
    storage, now = open_storage(output), time.time() + DAYS_SECONDS
    removed = collect(storage, find_garbage(storage, keep=1, now_seconds=now))
    remove_leftovers(storage, find_leftovers(storage, now_seconds=now))
    return sum(map(len, removed.values()))


def _on(folder, moment, trouble, work) -> tuple[int, str]:
    disk = watch(Disk(folder, moment, trouble))
    work()
    return disk.num_accesses, disk.hit


def gc_again_and_again(output: str, until_seconds: float, chance: float) -> int:
    """Run `gc` with pauses until a time. Returns how many files were removed."""
    number = 0
    while time.time() < until_seconds:
        number += gc(output)
        time.sleep(0.2 * chance)
    return number


def read_again_and_again(output: str, until_seconds: float) -> list[str]:
    """Read all samples of the newest snapshot again and again. Returns the outcome of each pass."""
    came = []
    while time.time() < until_seconds:
        try:
            dataset = StreamingDataset(
                remote=f"{output}/audio", latents=[f"{output}/latents/mel"], batch_size=4, validate_hash=True
            )
            seen = [key for batch in StreamingDataLoader(dataset) for key in batch["keys"] if key]
        except HeadraceError as error:
            came.append(f"read: {type(error).__name__}")
        else:
            assert len(seen) == len(set(seen)) == dataset.num_samples
            came.append("read: all of a snapshot")
    return came


def train(remote: str, cache: str, limit: str, until_seconds: float, validate: bool | None = None) -> list[str]:
    """Epochs through a cache until a time, at least one; every sample is compared. Returns what came of each."""
    corpus = {clip.key: clip for clip in CORPUS}
    came = []
    while not came or time.time() < until_seconds:
        warnings.simplefilter("ignore")  # of a small cache, and of damaged copies in it
        dataset = StreamingDataset(
            remote=f"{remote}/audio", latents=[f"{remote}/latents/crepe"], local=cache, cache_limit=limit,
            batch_size=8, shuffle=True, shuffle_seed=len(came), split="train", validate_hash=validate,
        )  # fmt: skip
        seen = []
        try:
            for batch in StreamingDataLoader(dataset):
                seen += [key for key in batch["keys"] if key]
                check_batch(batch, corpus)
        except HeadraceError as error:
            came.append(f"epoch: {type(error).__name__}{' that names the shard' if '.tar' in str(error) else error}")
        else:
            assert sorted(seen) == sorted(corpus)
            came.append("epoch: whole")
    return came


def check_batch(batch: dict, corpus: dict[str, Clip]) -> None:
    """Audio, latents and metadata are those that were written, bit for bit."""
    for row, key in enumerate(batch["keys"]):
        if key:
            clip = corpus[key]
            assert np.array_equal(batch["audio"][row, :, : int(batch["num_frames"][row])].numpy(), clip.audio()), key
            hidden = batch["encoder_hidden"][row, : int(batch["encoder_length"][row])].numpy()
            assert np.array_equal(hidden, clip.hidden()), key
            assert batch["metadata"][row] == json.loads(clip.json()), key


def fill_and_damage(cache: str, until_seconds: float, seed: str) -> list[str]:
    """Add foreign files to a cache, and flip bytes of cached files, truncate or delete them.

    Tars of latents are not flipped while they are open: nothing looks at them again by default (README).
    """
    chance, came = random.Random(seed), []
    while time.time() < until_seconds:
        time.sleep(chance.uniform(0, 0.05))
        there = [path for path in Path(cache).glob("*") if path.is_file() and not path.name.startswith("third")]
        deed = chance.choice(["fill", "flip", "flip", "cut", "delete"])
        if deed == "fill":
            (Path(cache) / f"third-{chance.randrange(3)}.tar").write_bytes(bytes(chance.randrange(20_000)))
        elif there and (path := chance.choice(there)) and not (deed == "flip" and is_latent_tar(path)):
            with contextlib.suppress(FileNotFoundError):
                damage_file(path, deed, chance)
        came.append(deed)
    return came


def is_latent_tar(path: Path) -> bool:
    """Whether it is one, by its name, also while it arrives (`.latent_….tar.part`)."""
    return path.name.lstrip(".").startswith("latent_") and path.name.removesuffix(".part").endswith(".tar")


def damage_file(path: Path, deed: str, chance: random.Random) -> None:
    """Flip one byte of a file in its place, cut it off, or delete it."""
    if deed == "delete":
        path.unlink()
    elif deed == "cut":
        os.truncate(path, chance.randrange(max(1, path.stat().st_size)))
    elif path.stat().st_size:
        with path.open("r+b") as file:
            place = chance.randrange(path.stat().st_size)
            file.seek(place)
            found = file.read(1)
            file.seek(place)
            file.write(bytes([found[0] ^ 1 << chance.randrange(8)]) if found else b"")


READERS = ("stream", "pipe", "index", "verify")


def read_hostile(folder: str, cache: str) -> list[tuple[str, str]]:
    """Read a folder of tars in every way, whole. Returns what came: of each way "read", or an error of ours."""
    warnings.simplefilter("ignore")
    came = []
    for reader in READERS:
        try:
            said = str(_read_hostile(reader, folder, cache))
        except HeadraceError as error:
            said = f"{type(error).__name__}: {error}"
        except BaseException as error:
            error.add_note(f"read by {reader}")
            raise
        came.append((reader, said))
    return came


def _read_hostile(reader: str, folder: str, cache: str) -> object:
    if reader == "stream":
        dataset = StreamingDataset(remote=folder, local=cache, batch_size=2)
        return sum(bool(key) for batch in StreamingDataLoader(dataset, num_threads=1) for key in batch["keys"])
    if reader == "pipe":
        return sum(len(batch["keys"]) for batch in webdataset_loader(folder, batch_size=2))
    code, said = command([reader, folder])
    return 0 if code == 0 else f"Exit code {code}: {said}"


Heard = tuple[int, int, bytes, bytes, str, int]
"""Rate, frames, samples, latents and caption of a recording, and how often the view takes it; empty without."""


def read_all(output: str) -> dict[str, Heard]:
    """Every recording of the newest snapshot, by source."""
    latents = [f"{output}/latents/mel"] if (Path(output) / "latents/mel").exists() else []
    columns = ["captions"] if (Path(output) / "columns/captions").exists() else []
    dataset = StreamingDataset(
        remote=f"{output}/audio", latents=latents, columns=columns, batch_size=1, validate_hash=bool(latents)
    )
    counts: dict[str, int] = {}
    if (Path(output) / "views/some").exists():
        chosen = StreamingDataset(remote=f"{output}/audio", view="some", batch_size=1)
        for number in range(chosen.size):
            key = chosen.get_item(number)["__key__"]
            counts[key] = counts.get(key, 0) + 1
    found = {}
    for number in range(dataset.num_samples):
        sample = dataset.get_item(number)
        audio = sample["audio"].numpy()
        hidden = sample["encoder_hidden"].numpy().tobytes() if latents else b""
        source = sample["metadata"]["headrace"]["source"]
        assert source not in found
        caption = sample["metadata"]["caption"] if columns else ""
        found[source] = (
            int(sample["sample_rate"]),
            audio.shape[1],
            audio.tobytes(),
            hidden,
            caption,
            counts.get(sample["__key__"], 0),
        )
    return found


def build_and_read(yaml: Path, output: str) -> tuple[dict[str, Heard], dict[str, str]]:
    """Build. Returns samples by source, and by path the reasons of rejected recordings."""
    build(yaml)
    rejected = existing_catalog(open_storage(output)).rejected()
    return read_all(output), dict(rejected.select("path", "reason").iter_rows())


def read_verify_build_read(output: str, yaml: Path) -> tuple[object, tuple[int, str], str, object]:
    """Read, verify, build and read again. Returns samples or error, verdict, error of the build, samples or error."""
    warnings.simplefilter("ignore")

    def read() -> object:
        try:
            return read_all(output)
        except HeadraceError as error:
            return f"{type(error).__name__}: {error}"

    first, verified, built = read(), command(["verify", output]), ""
    try:
        build(yaml)
    except HeadraceError as error:
        built = f"{type(error).__name__}: {error}"
    return first, verified, built, read()
