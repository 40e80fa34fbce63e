"""The corpus of `read.py`, in our shards: synthetic 5 s clips (44.1 kHz mono, 16 bits), (500, 256) float16 latents."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.peers.clips import ARRAY_FIELD, FIELD, LATENT_SHAPE, Run, array_tars, members, once, tars
from headrace.format.indexes.index_entries import PlacedTensor, SampleEntry
from headrace.format.shards.writer import ShardPlace, ShardWriter
from headrace.format.tensors.outputs import hidden_output
from headrace.format.tensors.pth import latent_facts
from headrace.stores.storage import LocalStorage
from tests.support.sounds import file_of, music
from tests.support.streaming.corpus import commit

NUM_FRAMES = 5 * 44_100
NUM_SOUNDS = 60
PREFIX = {"audio": "", "latents": "latent_"}
OUTPUTS = {"audio": (), "latents": (hidden_output("float16"),)}

Payload = tuple[bytes, SampleEntry]


def title(number: int) -> str:
    """Key of a clip, and `title` in its JSON."""
    return f"clip{number:06d}"


def make(folder: Path, num_clips: int, per_shard: int) -> None:
    """Both kinds under `folder`, each committed as a data set; and the latents as `.npy` in plain tars."""
    for kind, payload in (("audio", _flac()), ("latents", _pth())):
        storage = LocalStorage(folder / kind)
        indexes = []
        for shard, start in enumerate(range(0, num_clips, per_shard)):
            with ShardWriter(storage, ShardPlace("train", 0, shard, PREFIX[kind])) as writer:
                for number in range(start, min(start + per_shard, num_clips)):
                    blob, facts = payload(number)
                    text = _json(number)
                    writer.add(facts.key, {FIELD[kind]: (blob, len(blob)), "json": (text, len(text))}, facts)
                indexes.append(writer.publish("bench", {}, OUTPUTS[kind]))
        commit(storage, {"train-0000": indexes}, {})
    run = Run("corpus", folder, "latents", 0)
    once(array_tars(run), lambda arrays: _write_arrays(run, arrays))


def _write_arrays(run: Run, folder: Path) -> None:
    """The shards of latents again, with `.npy` in the place of `.pth`: what a WebDataset author would store."""
    for tar in map(Path, tars(run)):
        with tarfile.open(folder / tar.name, "w", format=tarfile.USTAR_FORMAT) as file:
            for key, payload, text in members(str(tar), run.kind):
                array = io.BytesIO()
                hidden = torch.load(io.BytesIO(payload), weights_only=True)["encoder_hidden"]
                np.save(array, hidden.numpy())
                for name, blob in ((f"{key}.{ARRAY_FIELD}", array.getvalue()), (f"{key}.json", text)):
                    member = tarfile.TarInfo(name)
                    member.size = len(blob)
                    file.addfile(member, io.BytesIO(blob))


def _json(number: int) -> bytes:
    provenance = {"source": f"{title(number)}.wav", "num_frames": NUM_FRAMES}
    return json.dumps({"title": title(number), "headrace": provenance}).encode()


def _flac() -> Callable[[int], Payload]:
    pcm = (np.round(music(NUM_FRAMES, seed=seed) * 32_767).astype(np.int16) for seed in range(NUM_SOUNDS))
    sounds = [file_of(samples, "FLAC") for samples in pcm]
    return lambda number: (sounds[number % NUM_SOUNDS], SampleEntry(title(number), {}, NUM_FRAMES, 44_100, 1))


def _pth() -> Callable[[int], Payload]:
    generator = torch.Generator().manual_seed(0)

    def payload(number: int) -> Payload:
        file = io.BytesIO()
        hidden = torch.randn(LATENT_SHAPE, generator=generator).half()
        torch.save({"encoder_hidden": hidden, "encoder_length": LATENT_SHAPE[0]}, file)
        found = latent_facts(file.getvalue())
        assert found is not None
        assert found.tensor is not None
        tensor = PlacedTensor(found.tensor.place, found.tensor.crc32)
        return file.getvalue(), SampleEntry(title(number), {}, LATENT_SHAPE[0], tensors=(tensor,))

    return payload
