"""Give NeMo's ASR models batches of Headrace, in place of the loader that they make of a manifest.

After the model is made, and before `trainer.fit(model)`:

    tokens = model.tokenizer.text_to_ids  # or the parser of a model of characters
    model.train_dataloader = lambda: nemo_loader("data/speech", tokens, split="train", batch_size=16, shuffle=True)
    model.val_dataloader = lambda: nemo_loader("data/speech", tokens, split="dev", batch_size=16)

`train_ds` and `validation_ds` of the YAML have no manifest then. NeMo's Trainer is Lightning's, so its checkpoints have
the place of the loader, and it goes on there.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from headrace import StreamingDataLoader, StreamingDataset

NemoBatch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def nemo_loader(
    remote: str,
    tokens: Callable[[str], Sequence[int]],
    *,
    column: str = "text",
    pad_id: int = 0,
    **options: Any,  # noqa: ANN401 - of several types
) -> StreamingDataLoader:
    """A loader of NeMo's batches: signals (B, N), their lengths (B,), tokens (B, L), their lengths (B,).

    Args:
        remote: an output of Headrace, or tars that `headrace index --columns` has indexed.
        tokens: gives the numbers of a text's tokens.
        column: the column of the text.
        pad_id: what shorter rows of tokens end with.
        options: those of `StreamingDataset`.
    """

    def as_nemo(batch: dict[str, Any]) -> NemoBatch:
        texts = [torch.tensor(tokens(row[column]), dtype=torch.int64) for row in batch["metadata"]]
        return (
            batch["audio"].mean(1),  # NeMo takes one channel
            batch["num_frames"],
            torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=pad_id),
            torch.tensor([len(text) for text in texts]),
        )

    dataset = StreamingDataset(
        remote=remote, columns=["metadata"], last_batch="drop", batch_transform=as_nemo, **options
    )
    return StreamingDataLoader(dataset)
