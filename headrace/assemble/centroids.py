"""Fits the centroids of `kind: kmeans` once, from a share of the training audio, and keeps them beside the latents.

The file is `centroids/<form>-<number>-<digest>.npy`: the form is a digest of the inner encoder and of the number of
codes, the digest that of the file's bytes. The newest one of a form counts. Nothing here fits them again by itself.
"""

import hashlib
import io
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from headrace.config.content import EncoderConfig, LatentsConfig
from headrace.encoders import Encoder, weights
from headrace.encoders.kmeans import KmeansSettings, form_of, parsed_settings
from headrace.errors import BuildError, IntegrityError, NotFoundError
from headrace.format.manifests.manifests import parsed_name
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.stores.storage import Storage

FOLDER = "centroids/"
MOST_SHARDS = 64
MOST_CLIPS = 1000
FRAMES_OF_A_CLIP = 100
DAMAGED = (
    "the file is damaged: its bytes do not have the digest of its name; put it back from a copy, or delete it: a build "
    "then fits centroids again, and encodes all units again"
)
_NAME = re.compile(r"centroids/([0-9a-f]{12})-(\d{6})-([0-9a-f]{12})\.npy")


def with_centroids(latents: LatentsConfig, storage: Storage) -> LatentsConfig:
    """Latents with the file of their fitted centroids in place of `num_codes`; unchanged if none are fitted.

    Args:
        latents: the settings of the YAML.
        storage: the folder of this set of latents.

    Raises:
        NotFoundError: the centroids have not been fitted yet.
        IntegrityError: the file is damaged: units of its centroids would be others, and all would be encoded again.
    """
    if not latents.fits_centroids:
        return latents
    settings = parsed_settings(latents.encoder.settings)
    if (name := newest_centroids(storage, settings)) is None:
        raise NotFoundError(
            f"{storage.uri}/{FOLDER}: no centroids of {settings.num_codes} codes of this encoder; materialize the "
            f"asset {latents.name}_centroids (a build does)"
        )
    path = _local(storage, name)
    if weights.file_digest(path)[:12] not in name:
        raise IntegrityError(f"{storage.uri}/{name}: {DAMAGED}")
    encoder = EncoderConfig(kind="kmeans", encoder=settings.encoder, centroids=str(path))
    return latents.model_copy(update={"encoder": encoder})


def newest_centroids(storage: Storage, settings: KmeansSettings) -> str | None:
    """Path of the newest centroids that were fitted for these settings; None without any."""
    form = form_of(settings)[:12]
    found = [(int(match[2]), match[0]) for match in _files(storage) if match[1] == form]
    return max(found)[1] if found else None


def centroid_files(storage: Storage) -> list[str]:
    """Paths of all centroids in the folder of a set of latents."""
    return [match[0] for match in _files(storage)]


def damaged_centroids(storage: Storage) -> list[str]:
    """Paths of the centroids whose bytes do not have the digest of their names."""
    return [name for name in centroid_files(storage) if _digest(storage.read(name)) not in name]


def _files(storage: Storage) -> list[re.Match[str]]:
    matches = (_NAME.fullmatch(entry.path) for entry in storage.list(FOLDER))
    return [match for match in matches if match is not None]


def _local(storage: Storage, name: str) -> Path:
    """A local copy of a file whose name holds its digest; the file itself on a local disk."""
    if (local := storage.local_path(name)) is not None:
        return local
    copy = Path(tempfile.gettempdir(), f"headrace-{os.getuid()}-{name.rpartition('/')[2]}")
    if not copy.is_file() or _digest(copy.read_bytes()) not in name:
        with tempfile.NamedTemporaryFile(dir=copy.parent, delete=False) as file:
            file.write(storage.read(name))
        Path(file.name).replace(copy)
    return copy


def _digest(blob: bytes) -> str:
    """The part of the SHA-256 of a file that its name holds."""
    return hashlib.sha256(blob).hexdigest()[:12]


def fit_and_store(  # noqa: PLR0913, PLR0917 - the folders, the settings, and what encodes
    audio: Storage,
    storage: Storage,
    settings: KmeansSettings,
    audio_field: str,
    split: str,
    load: Callable[[EncoderConfig], Sequence[Encoder]],
) -> tuple[str, int]:
    """Fit centroids and store them.

    Args:
        audio: the folder of audio shards.
        storage: the folder of this set of latents.
        settings: the inner encoder and the number of codes.
        audio_field: name of the audio field; empty for the first.
        split: the split whose audio is taken.
        load: loads the inner encoder.

    Returns:
        Path of the file, and number of frames that they were fitted to.

    Raises:
        NotFoundError: there is no audio snapshot yet.
        BuildError: the split has no samples.
        ConfigError: there are fewer frames than codes.
    """
    from headrace.encoders.kmeans_units import fit_centroids  # noqa: PLC0415 - imports torch
    from headrace.encoding.sampling import sampled_frames  # noqa: PLC0415

    shards = _chosen_shards(audio, split)
    encoder = next(iter(load(EncoderConfig(kind=settings.kind, **settings.own))))
    frames = sampled_frames(audio, shards, audio_field, encoder, MOST_CLIPS, FRAMES_OF_A_CLIP)
    centroids = fit_centroids(frames, int(settings.num_codes or 0))
    buffer = io.BytesIO()
    np.save(buffer, centroids.numpy())
    blob = buffer.getvalue()
    number = 1 + max((int(match[2]) for match in _files(storage)), default=0)
    name = f"{FOLDER}{form_of(settings)[:12]}-{number:06d}-{_digest(blob)}.npy"
    storage.write(name, blob)
    return name, len(frames)


def _chosen_shards(audio: Storage, split: str) -> list[str]:
    """At most 64 shards of a split, chosen by a hash of their places."""
    table = read_table(audio, read_snapshot(audio).snapshot)
    names = [name for name in table.names() if parsed_name(name)["split"] == split]
    if not names:
        raise BuildError(f"{audio.uri}: no samples of the split {split!r}, to whose frames centroids are fitted")
    return sorted(names, key=_lot)[:MOST_SHARDS]


def _lot(name: str) -> bytes:
    parts = parsed_name(name)
    return hashlib.sha256(f"{parts['split']} {parts['bucket']} {parts['sequence']}".encode()).digest()
