"""Give ESPnet's trainer batches of Headrace: an iterator factory in place of the one that its task makes.

In the task of your recipe:

    @classmethod
    def build_iter_factory(cls, args, distributed_option, mode, kwargs=None):
        return HeadraceIterFactory("data/demo", split=mode, tokens=tokens, batch_size=8, column="text")
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from espnet2.iterators.abs_iter_factory import AbsIterFactory

from headrace import StreamingDataLoader, StreamingDataset


class HeadraceIterFactory(AbsIterFactory):
    """Iterators of keys and ESPnet's batches, one for each epoch; ranks and sizes are those of torch.distributed."""

    def __init__(
        self,
        remote: str,
        tokens: Callable[[str], Sequence[int]],
        column: str = "text",
        **options: Any,  # noqa: ANN401 - of several types
    ) -> None:
        """Open the data. `tokens` gives the numbers of a text's tokens; `options` are those of `StreamingDataset`."""
        self.dataset = StreamingDataset(remote=remote, columns=["metadata"], last_batch="drop", **options)
        self.loader = StreamingDataLoader(self.dataset)
        self.tokens, self.column = tokens, column

    def build_iter(
        self,
        epoch: int,
        shuffle: bool | None = None,  # noqa: ARG002, FBT001 - ESPnet's; the dataset decides
    ) -> Iterator[tuple[list[str], dict[str, torch.Tensor]]]:
        """The batches of an epoch; ESPnet counts epochs from 1, also after a resume."""
        self.dataset.set_epoch(epoch - 1)
        for batch in self.loader:
            texts = [torch.tensor(self.tokens(row[self.column])) for row in batch["metadata"]]
            yield (
                batch["keys"],
                {
                    "speech": batch["audio"][:, 0],
                    "speech_lengths": batch["num_frames"],
                    "text": torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=-1),
                    "text_lengths": torch.tensor([len(text) for text in texts]),
                },
            )
