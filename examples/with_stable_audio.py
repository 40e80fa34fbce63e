"""Give stable-audio-tools batches of Headrace: audio or latents of one length, and a dict of each sample.

In its `train.py`, in place of `create_dataloader_from_config`:

    train_dl = stable_audio_loader(
        "data/music",
        model_config["sample_size"],
        sample_rate=model_config["sample_rate"],
        split="train",
        batch_size=args.batch_size,
        shuffle=True,
    )

Models that take latents (`"pre_encoded": true`) get a folder of latents as `remote`, with `is_latents=True` and the
length of the crop in latent frames. Its Trainer is Lightning's, so checkpoints have the place of the loader.
"""

import math
from typing import Any

import numpy as np
import torch

from headrace import StreamingDataLoader, StreamingDataset

StableAudioBatch = tuple[torch.Tensor, list[dict[str, Any]]]


def stable_audio_loader(  # noqa: PLR0913 - the options of a loader
    remote: str,
    sample_size: int,
    *,
    is_latents: bool = False,
    column: str = "text",
    num_channels: int = 2,
    phase_flips: float = 0.5,
    **options: Any,  # noqa: ANN401 - of several types
) -> StreamingDataLoader:
    """A loader of stable-audio-tools' batches: audio (B, C, N) or latents (B, D, N), and the metadata of each row.

    The metadata has `prompt`, `seconds_start`, `seconds_total`, `padding_mask` and the columns of the sample.

    Args:
        remote: an output of Headrace, or tars that `headrace index --columns` has indexed.
        sample_size: N, frames of audio or of latents.
        is_latents: whether `remote` is a folder of latents, such as `data/music/latents/oobleck`.
        column: the column of the prompt.
        num_channels: of the audio; a sample with one channel gets copies of it.
        phase_flips: probability that the audio of a sample is turned over, as stable-audio-tools does.
        options: those of `StreamingDataset`, `sample_rate` among them.
    """

    def as_stable_audio(batch: dict[str, Any], rng: np.random.Generator) -> StableAudioBatch:
        length = "encoder_length" if is_latents else "num_frames"
        found = batch["encoder_hidden"].transpose(1, 2) if is_latents else _with_channels(batch["audio"], num_channels)
        whole = torch.nn.functional.pad(found, (0, sample_size - found.shape[-1]))
        if not is_latents:
            whole[torch.from_numpy(rng.random(len(whole)) < phase_flips)] *= -1
        rows = zip(batch["metadata"], batch["start_seconds"].tolist(), batch[length].tolist(), whole, strict=True)
        return whole, [_metadata(row, column, start, num, one) for row, start, num, one in rows]

    if "sample_rate" in options:
        options["crop_seconds"] = sample_size / options["sample_rate"]  # stored frames may be of another rate
    else:
        options["crop_frames"] = sample_size
    dataset = StreamingDataset(
        remote=remote, columns=["metadata"], last_batch="drop", batch_transform=as_stable_audio, **options
    )
    return StreamingDataLoader(dataset)


def _with_channels(audio: torch.Tensor, num_channels: int) -> torch.Tensor:
    """Audio (B, C, N) with this many channels: copies of one, or the first ones; the mean where one is wanted."""
    if num_channels == 1:
        return audio.mean(1, keepdim=True)
    return audio.repeat(1, num_channels, 1) if audio.shape[1] == 1 else audio[:, :num_channels]


def _metadata(row: dict[str, Any], column: str, start: float, num_frames: int, audio: torch.Tensor) -> dict[str, Any]:
    """The metadata that the conditioners and the trainer of stable-audio-tools take of a sample."""
    mask = torch.zeros(audio.shape[-1])
    mask[:num_frames] = 1
    times = {"seconds_start": math.floor(start), "seconds_total": math.ceil(row["duration_seconds"])}
    return {**row, **times, "prompt": row.get(column), "padding_mask": [mask], "audio": audio}
