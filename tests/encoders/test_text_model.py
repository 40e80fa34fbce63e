"""Text models of transformers: hidden states, the longest texts, and precision."""

import pytest
import torch

from headrace import encoders
from tests.support.tiny_texts import encoded_texts as encoded
from tests.support.tiny_texts import recomputed

TEXTS = ["a dog barks loudly in the rain", "the cat", "a zebra", ""]


@pytest.mark.parametrize("name", ["bert", "t5", "clap"])
def test_hidden_states_are_those_of_each_token(folders, name):
    from transformers import AutoModel, AutoTokenizer, T5EncoderModel

    encoder = encoders.load("text", {"model": str(folders[name]), "output": "hidden"})
    found, lengths = encoded(encoder, TEXTS)
    hidden, counts = found["hidden"]
    assert torch.equal(counts, lengths)
    model = (T5EncoderModel if name == "t5" else AutoModel).from_pretrained(folders[name]).eval()
    model = model.text_model if name == "clap" else model
    tokenizer = AutoTokenizer.from_pretrained(folders[name])
    for row, text in enumerate(TEXTS):
        given = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        with torch.inference_mode():
            wanted = model(**given).last_hidden_state[0]
        assert torch.allclose(hidden[row, : int(counts[row])], wanted, atol=5e-6)


@pytest.mark.medium
def test_long_texts_are_cut_to_what_the_model_takes(folders):
    long = " ".join(["dog"] * 100)
    for settings, most in (({}, 24), ({"max_tokens": 5}, 5)):
        encoder = encoders.load("text", {"model": str(folders["bert"]), **settings})
        assert encoder.info.window == len(encoder.token_ids([long])[0]) == most
    static = encoders.load("text", {"model": str(folders["static"]), "max_tokens": 5})
    assert len(static.token_ids([long])[0]) == 5
    assert encoders.load("text", {"model": str(folders["clap"])}).info.window == 22  # its positions begin at 2


def test_t5_runs_in_bfloat16(folders):
    encoder = encoders.load("text", {"model": str(folders["t5"]), "autocast": "bfloat16"})
    assert encoder.info.batch_tolerance > 0
    found = encoded(encoder, TEXTS)[0]["embedding"]
    assert found.dtype == torch.float32
    assert torch.allclose(found[0], recomputed("t5", folders["t5"], TEXTS[0]), atol=0.1)
