"""Give moshi-finetune batches of Headrace: codes of stereo windows, with the text of the left channel among them.

In its `train.py`, in place of the two calls of `build_data_loader`:

    data_loader = moshi_batches("data/talk", interleaved_tokenizer, args.batch_size, split="train", shuffle=True)
    eval_data_loader = moshi_batches("data/talk", interleaved_tokenizer, args.batch_size, split="dev")

Recordings are stereo at Mimi's rate (in YAML: `audio: {sample_rate: 24000}`). Their words are a column of intervals,
`[{"start": 0.2, "end": 0.5, "label": "so", "speaker": "SPEAKER_MAIN"}, …]`: windows have their own words, in seconds
from their beginning. Mimi encodes a whole batch at a time, and windows are in the order of Headrace, which is the same
on any number of ranks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from finetune.data.interleaver import Batch, InterleavedTokenizer, Sample

from headrace import StreamingDataLoader, StreamingDataset


def moshi_batches(  # noqa: PLR0913 - the options of a loader
    remote: str,
    tokenizer: InterleavedTokenizer,
    batch_size: int,
    *,
    column: str = "alignments",
    conditions: str | None = None,
    is_endless: bool = True,
    **options: Any,  # noqa: ANN401 - of several types
) -> Iterator[Batch]:
    """Batches of codes (B, 1 + 2 K, T): the text, then the codes of the left and of the right channel.

    Args:
        remote: an output of Headrace.
        tokenizer: moshi-finetune's own, with Mimi, its interleaver and the length of a window.
        batch_size: windows of a batch.
        column: the words as intervals, with `label` and `speaker`.
        conditions: the column of the conditions, if the model has any.
        is_endless: whether epoch follows epoch, as the trainer wants it; an evaluation takes one.
        options: those of `StreamingDataset`.
    """
    dataset = StreamingDataset(
        remote=remote,
        columns=["metadata"],
        batch_size=batch_size,
        window_seconds=tokenizer.duration_sec,
        last_batch="drop",
        **options,
    )
    loader = StreamingDataLoader(dataset)
    while True:
        for batch in loader:
            yield Batch.collate(list(_samples(batch, tokenizer, column, conditions)))
        if not is_endless:
            return


def _samples(
    batch: Mapping[str, Any], tokenizer: InterleavedTokenizer, column: str, conditions: str | None
) -> Iterator[Sample]:
    """The samples of a batch; both channels of all of them are encoded in one call, short ones with silence."""
    audio = batch["audio"].to(tokenizer.interleaver.device)  # (B, 2, N), with room for whole windows
    with torch.no_grad():
        codes = tokenizer.mimi.encode(audio.flatten(0, 1)[:, None])
    codes = codes[..., : tokenizer.num_audio_frames].unflatten(0, audio.shape[:2]).flatten(1, 2)
    for row, metadata in enumerate(batch["metadata"]):
        text = tokenizer.interleaver.prepare_item(_alignments(metadata[column] or ()), tokenizer.duration_sec)
        streams = torch.cat([text, codes[row : row + 1]], dim=1)
        yield Sample(streams, metadata[conditions] if conditions else None)


def _alignments(words: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[float, float], str]]:
    return [(word["label"], (word["start"], word["end"]), word["speaker"]) for word in words]
