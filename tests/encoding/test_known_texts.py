"""Latents of texts are read from earlier shards, unless these are missing, damaged or of another encoder."""

import pytest
import torch

from headrace.encoding.known_texts import KnownTexts
from headrace.encoding.publishing import stored_outputs
from headrace.encoding.texts import digest_of
from headrace.format.manifests.manifests import newest_manifest
from tests.encoding.test_text_shards import CAPTIONS, Texts
from tests.support.latent_builds import PARTITION
from tests.support.tiny_texts import save_text

BARKS = CAPTIONS["a"]


@pytest.fixture
def built(tmp_path):
    made = Texts(tmp_path, save_text("static", tmp_path / "model"))
    made.write({key: text or ["no", "music"] for key, text in CAPTIONS.items()}).build()
    return made


def known(built, encoder="", dtype="float32"):
    """The latents of some texts, according to all shards."""
    own = built.counting
    found = KnownTexts(built.storage, encoder or own.fingerprint, dtype, stored_outputs(own, dtype))
    for shard in newest_manifest(built.storage, PARTITION).manifest.shards:
        found.look_into(shard.name)
    return found.of(map(digest_of, ["music", "the cat", "a bird", BARKS]))


def test_texts_of_lists_are_found_one_by_one(built):
    found = known(built)
    assert found.keys() == {digest_of(text) for text in ("music", "the cat", BARKS)}
    stored = {"music": built.stored("d")[0]["embedding"][1], "the cat": built.stored("b")[0]["embedding"]}
    for text, vectors in stored.items():
        (made,) = found[digest_of(text)]
        assert made.shape == (1, 32)
        assert torch.equal(made[0], vectors)


@pytest.mark.medium
def test_other_encoders_and_dtypes_know_no_text(built):
    assert known(built, encoder="another") == {}
    assert known(built, dtype="float16") == {}


def test_texts_of_a_damaged_or_missing_shard_are_not_known(built):
    first, _ = newest_manifest(built.storage, PARTITION).manifest.shards
    path = built.storage.local_path(first.name)
    content = bytearray(path.read_bytes())
    start = content.find(b"PK")
    content[start + 200 : start + 900] = bytes(700)
    path.write_bytes(content)
    assert digest_of(BARKS) not in known(built)
    path.unlink()
    assert known(built).keys() == {digest_of("music"), digest_of("the cat")}  # which the second shard has as well
