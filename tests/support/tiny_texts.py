"""Tiny text models with random weights, saved as model authors save them, and the vectors that they give."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

WORDS = [
    "a",
    "an",
    "the",
    "dog",
    "cat",
    "bird",
    "barks",
    "sings",
    "loudly",
    "softly",
    "in",
    "rain",
    "wind",
    "and",
    "music",
    "piano",
    "plays",
    "no",
]
"""The words that the tokenizers know."""
DIM = 32
_SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def tokenizer() -> Any:
    """A tokenizer of words, with special tokens around each text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate([*_SPECIAL, *WORDS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return made


def save_text(name: str, folder: Path, *, seed: int = 0) -> Path:
    """Save the model with this name (`bert`, `t5`, `clap` or `static`) in `folder`."""
    folder.mkdir(exist_ok=True)
    torch.manual_seed(seed)
    if name == "static":
        table = np.random.default_rng(seed).standard_normal((len(WORDS) + len(_SPECIAL), DIM)).astype(np.float32)
        np.save(folder / "table.npy", table)
        tokenizer().save(str(folder / "tokenizer.json"))
        return folder
    from transformers import AutoModel, PreTrainedTokenizerFast

    AutoModel.from_config(_config(name)).save_pretrained(folder)
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer(), **special).save_pretrained(folder)
    return folder


def _config(name: str) -> Any:
    import transformers

    sizes = {"hidden_size": DIM, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    sizes |= {"vocab_size": len(WORDS) + len(_SPECIAL), "pad_token_id": 0}
    if name == "bert":
        return transformers.BertConfig(**sizes, max_position_embeddings=24)
    if name == "t5":
        t5 = {"d_model": DIM, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
        return transformers.T5Config(**t5, vocab_size=sizes["vocab_size"])
    audio = {"patch_embeds_hidden_size": 8, "hidden_size": 64, "depths": [1, 1], "num_attention_heads": [1, 1]}
    audio |= {"spec_size": 64, "num_mel_bins": 16, "patch_size": 4, "num_classes": 4}
    text = {**sizes, "max_position_embeddings": 24, "pad_token_id": 1}
    return transformers.ClapConfig(text_config=text, audio_config=audio, projection_dim=24)


def recomputed(name: str, folder: Path, text: str) -> torch.Tensor:
    """The vector (D,) of a text, by transformers or numpy themselves, alone and without padding."""
    if name == "static":
        ids = tokenizer().encode(text, add_special_tokens=False).ids
        return torch.from_numpy(np.load(folder / "table.npy")[ids].mean(0))
    from transformers import AutoModel, AutoTokenizer, T5EncoderModel

    model = (T5EncoderModel if name == "t5" else AutoModel).from_pretrained(folder).eval()
    given = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        if name == "clap":
            found = model.get_text_features(**given)
            return getattr(found, "pooler_output", found)[0]
        return model(**given).last_hidden_state[0].mean(0)


def encoded_texts(encoder: Any, texts: list[str]) -> tuple[Any, torch.Tensor]:
    """The outputs of texts in one batch, with rubbish behind each row's end, and their lengths."""
    ids = encoder.token_ids(texts)
    lengths = torch.tensor([len(one) for one in ids])
    batch = torch.full((len(ids), 1, int(lengths.max())), 3)
    for row, one in enumerate(ids):
        batch[row, 0, : len(one)] = torch.from_numpy(one)
    return encoder.encode(batch, lengths), lengths


def describe_text(folder: Path, **changes: Any) -> None:
    """Change entries of a saved model's config.json, which is made if it does not exist."""
    path = folder / "config.json"
    found = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(found | changes))
