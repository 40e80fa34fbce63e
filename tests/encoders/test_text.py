"""Settings, fingerprints and models of `kind: text`."""

import pytest
import torch

from headrace import encoders
from headrace.encoders.protocol import TextEncoder
from headrace.errors import ConfigError, IntegrityError, MissingDependencyError
from tests.support.tiny_texts import encoded_texts as encoded
from tests.support.tiny_texts import recomputed, save_text

TEXTS = ["a dog barks loudly in the rain", "the cat", "a zebra", ""]


@pytest.mark.medium
@pytest.mark.parametrize("name", ["bert", "t5", "clap", "static"])
def test_a_text_has_the_vector_that_it_has_alone(folders, name):
    encoder = encoders.load("text", {"model": str(folders[name])})
    assert isinstance(encoder, TextEncoder)
    texts = [text for text in TEXTS if text or name != "static"]
    found = encoded(encoder, texts)[0]["embedding"]
    wanted = torch.stack([recomputed(name, folders[name], text) for text in texts])
    assert torch.allclose(found, wanted, atol=2e-6)
    assert float((wanted[0] - wanted[1]).abs().max()) > 0.01


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("t5", {"autocast": "float16"}, "a T5 overflows in float16; choose autocast: bfloat16"),
        ("static", {"output": "hidden"}, "is a table of token vectors, which gives output: vector in float32 only"),
        ("static", {"autocast": "bfloat16"}, "gives output: vector in float32 only"),
        ("bert", {"max_tokens": 0}, "max_tokens must be at least 1, found 0"),
        ("bert", {"max_tokens": 25}, "max_tokens is 25, this model takes at most 24"),
        ("bert", {"layer": 3}, "unknown setting 'layer'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(folders, name, settings, message):
    with pytest.raises(ConfigError, match=message):
        encoders.load("text", {"model": str(folders[name]), **settings})


def test_the_fingerprint_is_that_of_the_files(folders, tmp_path):
    first = encoders.fingerprint("text", {"model": str(folders["bert"])})
    assert first == encoders.fingerprint("text", {"model": str(save_text("bert", tmp_path / "same"))})
    others = [
        {"model": str(save_text("bert", tmp_path / "other", seed=1))},
        {"model": str(folders["bert"]), "output": "hidden"},
        {"model": str(folders["bert"]), "max_tokens": 7},
    ]
    (tmp_path / "same/tokenizer.json").write_text("{}")
    others.append({"model": str(tmp_path / "same")})
    assert len({first, *(encoders.fingerprint("text", other) for other in others)}) == 5


def test_files_that_are_missing_or_wrong_are_named(tmp_path):
    folder = save_text("static", tmp_path / "model")
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(IntegrityError, match=r"tokenizer\.json: not a tokenizer"):
        encoders.load("text", {"model": str(folder)})
    (folder / "tokenizer.json").unlink()
    with pytest.raises(MissingDependencyError, match=r"has no tokenizer\.json"):
        encoders.fingerprint("text", {"model": str(folder)})
    (folder / "table.npy").unlink()
    with pytest.raises(MissingDependencyError, match="has no weights"):
        encoders.fingerprint("text", {"model": str(folder)})
    with pytest.raises(MissingDependencyError, match="encoder text: nobody/none: no such folder"):
        encoders.fingerprint("text", {"model": "nobody/none"})
