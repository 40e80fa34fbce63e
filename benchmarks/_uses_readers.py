"""The three ways of `uses.py` to read: Headrace, webdataset, and torch's DataLoader over files.

A reader yields the number of samples and of frames (tokens where there are tokens) of each batch. All make shuffled
batches of 32, rows padded.
"""

import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile as sf
import torch
import webdataset as wds
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.nn.functional import conv1d, pad
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import headrace.streaming.loader  # noqa: F401 - `headrace` imports late, and imports are not measured
from benchmarks._uses_corpus import RATE_HZ, RECORDING_SECONDS, WORDS
from benchmarks.peers.clips import BATCH, SHUFFLE_BUFFER
from headrace import StreamingDataLoader, StreamingDataset
from headrace.audio import decode

OURS, TARS, FILES = "headrace", "webdataset", "files"
MEL_RATE_HZ, FFT, HOP, BANDS = 16_000, 512, 160, 80

Counts = Iterator[tuple[int, int]]
Sample = dict[str, Any]
Part = tuple[Path, int, int]
"""A file, a first frame, a number of frames."""


def collated(samples: Sequence[tuple[torch.Tensor, ...]]) -> tuple[list[torch.Tensor], int]:
    """Padded rows of each field, and the length of the first field of all rows together."""
    columns = list(zip(*samples, strict=True))
    return list(map(padded, columns)), sum(row.shape[-1] for row in columns[0])


def padded(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Rows in one tensor, zeros after their ends."""
    longest = max(row.shape[-1] for row in rows)
    if all(row.shape[-1] == longest for row in rows):
        return torch.stack(tuple(rows))
    batch = rows[0].new_zeros(len(rows), *rows[0].shape[:-1], longest)
    for place, row in zip(batch, rows, strict=True):
        place[..., : row.shape[-1]] = row
    return batch


def audio(payload: bytes) -> torch.Tensor:
    """Float32 (C, N): FLAC by our decoder, all else by libsndfile, as Headrace has it."""
    if payload[:4] == b"fLaC":
        return torch.from_numpy(decode(payload)[0])
    return torch.from_numpy(sf.read(io.BytesIO(payload), dtype="float32", always_2d=True)[0].T)


@dataclass(frozen=True, slots=True)
class Use:
    """One use, for all loaders.

    Attributes:
        corpus: folder of the tars and files.
        fields: extensions of the audio.
        options: of `StreamingDataset`.
        length: of a batch of Headrace: frames or tokens of all rows.
        made: for the others: tensors of a sample, given its fields as bytes and its metadata as `json`.
        keep: for the others: whether to read a sample, given its metadata.
        collate: for the others.
        windows: for webdataset: cuts whole recordings.
        parts: for files: what is read by `soundfile.seek`, given the folder of all corpora; else whole files.
        loaders: that can do it.
        num_workers: to try, of the others.
        ours: the same of Headrace, whose threads decode without any.
        num_ranks: processes that share the epoch.
    """

    corpus: str
    fields: Sequence[str] = ("flac",)
    options: dict[str, Any] = field(default_factory=dict)
    length: Callable[[dict[str, Any]], int] = lambda batch: int(batch["num_frames"].sum())
    made: Callable[[Sample], tuple[Any, ...]] | None = None
    keep: Callable[[Sample], bool] | None = None
    collate: Callable[[Sequence[Any]], Any] = collated
    windows: Callable[[Iterator[Sample]], Iterator[Sample]] | None = None
    parts: Callable[[Path], list[Part]] | None = None
    loaders: Sequence[str] = (OURS, TARS, FILES)
    num_workers: Sequence[int] = (0, 2)
    ours: Sequence[int] = (0,)
    num_ranks: int = 1

    def settings(self) -> list[tuple[str, int]]:
        """Loaders and numbers of worker processes."""
        return [(name, n) for name in self.loaders for n in (self.ours if name == OURS else self.num_workers)]

    def read(self, loader: str, root: Path, num_workers: int) -> Counts:
        """An epoch."""
        if loader == OURS:
            return self._ours(root / self.corpus / "tars", num_workers)
        return (self._tars if loader == TARS else self._files)(root, num_workers)

    def _ours(self, tars: Path, num_workers: int) -> Counts:
        dataset = StreamingDataset(remote=str(tars), batch_size=BATCH, shuffle=True, **self.options)
        for batch in StreamingDataLoader(dataset, num_workers=num_workers):
            yield sum(map(bool, batch["keys"])), self.length(batch)

    def _tars(self, root: Path, num_workers: int) -> Counts:
        urls = sorted(map(str, (root / self.corpus / "tars").glob("*.tar")))
        found = wds.WebDataset(urls, shardshuffle=len(urls), empty_check=False, nodesplitter=wds.split_by_node)
        if self.keep:
            found = found.select(lambda sample: self.keep(json.loads(sample["json"])))
        found = found.compose(self.windows) if self.windows else found
        found = found.shuffle(SHUFFLE_BUFFER).map(self._decoded).batched(BATCH, collation_fn=self.collate)
        for batch, total in wds.WebLoader(found, batch_size=None, num_workers=num_workers):
            yield len(batch[0]), total

    def _files(self, root: Path, num_workers: int) -> Counts:
        items, read = (self.parts(root), cut) if self.parts else (self._items(root), self._read)
        data = Items(items, read)
        sampler = DistributedSampler(data) if torch.distributed.is_initialized() else None
        loader = DataLoader(
            data, BATCH, shuffle=sampler is None, sampler=sampler, num_workers=num_workers, collate_fn=self.collate
        )
        for batch, total in loader:
            yield len(batch[0]), total

    def _items(self, root: Path) -> list[Sample]:
        """Metadata of all samples from a table, and their files."""
        rows = json.loads((root / self.corpus / "table.json").read_text())
        kept = {key: row for key, row in rows.items() if self.keep is None or self.keep(row)}
        files = root / self.corpus / "files"
        return [{name: files / f"{key}.{name}" for name in self.fields} | {"json": row} for key, row in kept.items()]

    def _read(self, item: Sample) -> tuple[Any, ...]:
        return self._decoded(
            {name: part.read_bytes() if isinstance(part, Path) else part for name, part in item.items()}
        )

    def _decoded(self, sample: Sample) -> tuple[Any, ...]:
        return self.made(sample) if self.made else tuple(audio(sample[name]) for name in self.fields)


class Items(Dataset[Any]):
    """Samples by number, read by a function."""

    def __init__(self, items: Sequence[Any], read: Callable[[Any], Any]) -> None:
        self._items, self._read = items, read

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: int) -> Any:  # noqa: ANN401
        return self._read(self._items[number])


def cut(part: Part) -> tuple[torch.Tensor]:
    """Float32 (C, N): a part of a file by `soundfile.seek`; a first frame of -1 means a random one."""
    path, start, count = part
    with sf.SoundFile(path) as file:
        file.seek(start if start >= 0 else int(torch.randint(file.frames - count, ())))
        return (torch.from_numpy(file.read(count, dtype="float32", always_2d=True).T),)


def windows(seconds: int) -> Callable[[Iterator[Sample]], Iterator[Sample]]:
    """A stage of a webdataset pipeline of recordings: decodes them and hands windows to the shuffle buffer."""
    return lambda samples: (
        {"window": window.clone()}  # else the buffer would keep all recordings
        for sample in samples
        for window in audio(sample["flac"]).split(seconds * RATE_HZ, dim=1)
    )


def places(folder: Path, seconds: int) -> list[Part]:
    """The windows of all recordings."""
    starts = range(0, RECORDING_SECONDS * RATE_HZ, seconds * RATE_HZ)
    return [(path, start, seconds * RATE_HZ) for path in sorted(folder.iterdir()) for start in starts]


@cache
def resampling() -> tuple[torch.Tensor, int, int]:
    """Low-pass filters, one for each phase, (160, 1, K); frames between their places; frames before the first."""
    common = math.gcd(RATE_HZ, MEL_RATE_HZ)
    step, phases = RATE_HZ // common, MEL_RATE_HZ // common
    width = math.ceil(6 * step / phases)
    times = torch.arange(-width, width + step)[None] / step - torch.arange(phases)[:, None] / phases
    times = (times * phases).clamp(-6, 6)
    return (torch.sinc(times) * torch.cos(times * math.pi / 12) ** 2 * phases / step)[:, None], step, width


@cache
def bands() -> torch.Tensor:
    """Triangles on the mel scale, (80, 257)."""
    edges = 700 * (10 ** (np.linspace(0, 2595 * math.log10(1 + MEL_RATE_HZ / 1400), BANDS + 2) / 2595) - 1)
    hertz = np.linspace(0, MEL_RATE_HZ / 2, FFT // 2 + 1)
    widths = np.diff(edges)[:, None]
    rising = (hertz - edges[:-2, None]) / widths[:-1]
    falling = (edges[2:, None] - hertz) / widths[1:]
    return torch.from_numpy(np.maximum(0, np.minimum(rising, falling))).float()


def mel(sound: torch.Tensor) -> torch.Tensor:
    """Log-mel (80, T) at 16 kHz of mono sound (1, N) at 44.1 kHz."""
    kernel, step, width = resampling()
    sound = conv1d(pad(sound, (width, width + step))[None], kernel, stride=step)[0].T.reshape(-1)
    spectrum = torch.stft(sound, FFT, HOP, window=torch.hann_window(FFT), return_complex=True)
    return (bands() @ spectrum.abs().square()).clamp(min=1e-10).log10()


def with_mel(sample: Sample) -> Sample:
    """The transform of Headrace."""
    return sample | {"mel": mel(sample["audio"]), "audio": sample["audio"][:, :0]}


@cache
def tokenizer() -> Tokenizer:
    """A small BPE tokenizer of the captions."""
    made = Tokenizer(models.BPE(unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator([" ".join(WORDS)] * 10, trainers.BpeTrainer(vocab_size=60, special_tokens=["?"]))
    return made


def caption(sample: Sample) -> str:
    """The text of a sample of the others."""
    row = sample["json"]
    return (row if isinstance(row, dict) else json.loads(row))["caption"]


def tokens(text: str) -> torch.Tensor:
    """Int64 (L,)."""
    return torch.tensor(tokenizer().encode(text).ids)


def all_tokens(texts: list[str]) -> list[torch.Tensor]:
    """The tokens of all texts of a batch by one call."""
    return [torch.tensor(found.ids) for found in tokenizer().encode_batch_fast(texts)]


def with_tokens(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch transform of Headrace."""
    rows = all_tokens([metadata.get("caption", "") for metadata in batch["metadata"]])
    return batch | {"tokens": padded(rows), "tokens_length": torch.tensor(list(map(len, rows)))}


def collated_captions(samples: Sequence[tuple[str, torch.Tensor]]) -> tuple[list[torch.Tensor], int]:
    """Tensors of a batch of the others, with all tokens by one call."""
    texts, sounds = zip(*samples, strict=True)
    return collated(list(zip(all_tokens(list(texts)), sounds, strict=True)))
