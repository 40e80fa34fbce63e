"""Read the same shards with Hugging Face datasets: the tars that `sizes.json` lists are ordinary WebDataset shards.

python examples/with_hugging_face.py data/demo/audio
"""

import json
import sys
from pathlib import Path

from datasets import load_dataset


def main(folder: Path) -> None:
    """Print keys and metadata of the first few samples."""
    shards = [
        str(folder / name) for name in json.loads((folder / "sizes.json").read_text()) if name.startswith("train_")
    ]
    samples = load_dataset("webdataset", data_files=shards, split="train", streaming=True)
    columns = samples.select_columns(["__key__", "json"])
    for sample in columns.take(3):
        print(sample["__key__"], sample["json"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
