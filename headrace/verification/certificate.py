"""Encodes a share of the samples of latents again on this machine, and states how far the results differ.

Device, torch, cuDNN and compilation change results by rounding. So each group of samples that the same ones made has
at least one sample in the share. `drawn` chooses the samples and is pure; `certify` encodes them.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from headrace import encoders
from headrace.assemble.centroids import with_centroids
from headrace.assemble.latents import LatentSettings
from headrace.assemble.reconcile import latent_settings
from headrace.config.content import LatentsConfig
from headrace.config.dataset import DatasetConfig
from headrace.encoding.stats import Comparison
from headrace.errors import ConfigError, HeadraceError
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.made_by import MadeBy
from headrace.format.manifests.manifests import Manifest, newest_manifests
from headrace.locate import locate
from headrace.locate.outputs import AUDIO, COLUMNS, ITSELF, LATENTS, folders_of_output, output_of
from headrace.stores.storage import Storage, open_storage
from headrace.verification.shard_check import Fault

_LOTS = 1 << 64


@dataclass(frozen=True, slots=True)
class LatentSet:
    """One set of latents to encode again.

    Attributes:
        config: its settings.
        latents: its folder.
        audio: the folder of audio shards.
        columns: the folder of the set of columns that has the texts; None if none has.
    """

    config: LatentsConfig
    latents: Storage
    audio: Storage
    columns: Storage | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sample to encode again.

    Attributes:
        index: index of its shard.
        row: its number in the shard.
        groups: devices and software that computed its shard; `None` where the manifest does not say.
    """

    index: ShardIndex
    row: int
    groups: tuple[MadeBy | None, ...]


@dataclass(slots=True)
class OutputError:
    """The error of an output over all samples.

    Attributes:
        largest_error: largest difference of a frame of a sample, as a share of its largest frame; of codes, the largest
            share of different ones in a sample.
        allowed: the bound.
        equal_codes: share of equal codes of all samples; None for other outputs.
        num_values: numbers that were compared.
    """

    largest_error: float = 0.0
    allowed: float = 0.0
    equal_codes: float | None = None
    num_values: int = 0

    def add(self, found: Comparison) -> None:
        """Count the comparison of a sample."""
        if found.is_of_codes:
            equal = (self.equal_codes or 0.0) * self.num_values + (1 - found.difference) * found.num_values
            self.equal_codes = equal / max(1, self.num_values + found.num_values)
        self.num_values += found.num_values
        self.largest_error = max(self.largest_error, found.difference)
        self.allowed = found.allowed


@dataclass(slots=True)
class Certificate:
    """The result for one set of latents.

    Attributes:
        name: of the set.
        device: what encoded the samples again.
        num_samples: samples that were encoded again.
        groups: device and software of the stored latents, in words → number of the samples that were drawn of it. A
            shard that copied some of its latents may name several, joined by "or".
        outputs: output → its error.
        faults: samples beyond the bounds, or that cannot be encoded again.
    """

    name: str
    device: str
    num_samples: int = 0
    groups: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, OutputError] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


def latent_sets(path: str, config: DatasetConfig) -> list[LatentSet]:
    """The sets of latents that a path names: those of an output that the YAML has, or one folder of latents.

    Raises:
        ConfigError: the path is something else, or the YAML has none of its sets.
        NotFoundError: there is nothing.
    """
    located = locate(path)
    folders = folders_of_output(located.storage) if located.is_output else located.all_folders()
    root = path.rstrip("/")
    found = [one.storage for one in folders if one.name.startswith(f"{LATENTS}/")]
    if not located.is_output and folders and folders[0].name == ITSELF and root.split("/")[-2:-1] == [LATENTS]:
        found, root = [folders[0].storage], output_of(path, folders[0])
    named = {entry.name: entry for entry in config.latents}
    names = [storage.uri.rstrip("/").rpartition("/")[2] for storage in found]
    output = open_storage(root)
    sets = []
    for name, one in zip(names, found, strict=True):
        if (latents := named.get(name)) is not None:
            texts, _ = config.text_column(latents)
            columns = output.at(f"{COLUMNS}/{texts}") if texts else None
            sets.append(LatentSet(with_centroids(latents, one), one, output.at(AUDIO), columns))
    if not sets:
        raise ConfigError(
            f"{path}: no latents of {config.name}.yaml; found {', '.join(names) or 'no folder of latents'}, and the "
            f"YAML has {', '.join(named) or 'none'}: name an output, or its folder latents/NAME"
        )
    return sets


def certify(
    one: LatentSet,
    share: float,
    device: str,
    progress: Callable[[int], None] = lambda num_samples: None,  # noqa: ARG005
) -> Certificate:
    """Encode a share of the samples of a set again.

    Args:
        one: the set.
        share: of its samples, from 0 to 1.
        device: for example `cpu` or `cuda:0`.
        progress: called with 1 after each sample.

    Raises:
        ConfigError: the latents were made with another encoder, dtype or field than the settings say.
        MissingDependencyError, IntegrityError: see `headrace.encoders.load`.
    """
    from headrace.verification.encoded_again import EncodedAgain  # noqa: PLC0415 - imports torch

    settings = latent_settings(one.config)
    manifests = [numbered.manifest for numbered in newest_manifests(one.latents).values()]
    for manifest in manifests:
        _check_settings(one, manifest, settings)
    chosen = drawn(_shards(one.latents, manifests), share)
    found = Certificate(one.config.name, device, len(chosen), _counted(chosen))
    if not chosen:
        return found
    again = EncodedAgain(
        one.audio,
        one.latents,
        encoders.load(one.config.encoder.kind, one.config.encoder.settings, device),
        one.columns,
    )
    for sample in chosen:
        _add(found, one.latents, sample, again.compared)
        progress(1)
    return found


def drawn(shards: Iterable[tuple[ShardIndex, tuple[MadeBy | None, ...]]], share: float) -> list[Drawn]:
    """The samples to encode again, in the order of the shards: a pure function of keys, groups and share.

    A sample is drawn if the first 64 bits of the SHA-256 of its key, as a share of 2^64, are below `share`. Of a group
    without such a sample, the one whose number is least is drawn, of a shard that this group alone made if there is
    one. Samples without latents are never drawn.
    """
    chosen: dict[tuple[str, int], Drawn] = {}
    least: dict[MadeBy | None, tuple[tuple[bool, float], Drawn]] = {}
    for index, groups in shards:
        for row, key in enumerate(index.keys()):
            lot = (len(groups) > 1, _lot(key))
            is_least = any(group not in least or lot < least[group][0] for group in groups)
            if (lot[1] >= share and not is_least) or index.row(row).tensors[0] is None:
                continue
            sample = Drawn(index, row, groups)
            if lot[1] < share:
                chosen[index.shard, row] = sample
            for group in groups:
                least[group] = min(least.get(group, (lot, sample)), (lot, sample), key=lambda one: one[0])
    sure = {sample.groups[0] for sample in chosen.values() if len(sample.groups) == 1}
    for group, (_, sample) in least.items():
        if group not in sure:
            chosen[sample.index.shard, sample.row] = sample
    return [chosen[place] for place in sorted(chosen)]


def _lot(key: str) -> float:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) / _LOTS


def _shards(storage: Storage, manifests: Sequence[Manifest]) -> Iterable[tuple[ShardIndex, tuple[MadeBy | None, ...]]]:
    for manifest in manifests:
        for place, shard in enumerate(manifest.shards):
            groups = tuple(made.by for made in manifest.made if place in made.shards)
            yield read_index(storage, shard.name), groups or (None,)


def _check_settings(one: LatentSet, manifest: Manifest, settings: LatentSettings) -> None:
    if settings.wanted(manifest.source) != manifest.wanted:
        raise ConfigError(
            f"{one.latents.uri}: the manifest of {manifest.partition} has another fingerprint than latents "
            f"({one.config.name}) of the YAML: encoder {settings.encoder[:12]}, dtype {settings.dtype}, field "
            f"{settings.audio_field or 'of the first audio'}; name the YAML that built them, or build them again"
        )


def _counted(chosen: Sequence[Drawn]) -> dict[str, int]:
    words = [" or ".join(str(group or "not recorded") for group in sample.groups) for sample in chosen]
    return {group: words.count(group) for group in sorted(set(words))}


def _add(
    found: Certificate,
    storage: Storage,
    sample: Drawn,
    compare: Callable[[ShardIndex, int], dict[str, Comparison]],
) -> None:
    """Encode a sample and count its comparisons."""
    where = f"{storage.uri}/{sample.index.shard}"
    key = sample.index.key(sample.row)
    try:
        comparisons = compare(sample.index, sample.row)
    except HeadraceError as error:
        found.faults.append(Fault(where, f"sample {key!r} cannot be encoded again: {error}"))
        return
    for output, comparison in comparisons.items():
        found.outputs.setdefault(output, OutputError()).add(comparison)
        if not comparison.is_same:
            made = " or ".join(str(group or "not recorded") for group in sample.groups)
            found.faults.append(Fault(where, f"sample {key!r}: {output}: {comparison}; it was made by {made}"))


def this_device() -> str:
    """The device on which this machine encodes: its first GPU, or its CPU."""
    import torch

    return "cuda:0" if torch.cuda.is_available() else "cpu"
