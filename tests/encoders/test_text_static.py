"""Tables of token vectors, as encoders of texts."""

import numpy as np
import pytest
import torch

from headrace import encoders
from headrace.errors import ConfigError, IntegrityError
from tests.support.tiny_texts import describe_text, save_text


def encoded(encoder, texts):
    """The vectors of texts of one length."""
    ids = np.stack(encoder.token_ids(texts))
    return encoder.encode(torch.from_numpy(ids)[:, None], torch.full((len(ids),), ids.shape[1]))["embedding"]


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (np.zeros((3, 4), np.float32), ConfigError, "tokens, the table 3 vectors; they are not of one model"),
        (np.zeros(30, np.float32), IntegrityError, r"expected finite numbers \(tokens, D\), found \(30,\)"),
        (np.full((30, 4), np.nan, np.float32), IntegrityError, "expected finite numbers"),
        (np.array([None] * 30), IntegrityError, "not a table of token vectors"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path, table, error, message):
    folder = save_text("static", tmp_path / "model")
    np.save(folder / "table.npy", table, allow_pickle=True)
    with pytest.raises(error, match=message):
        encoders.load("text", {"model": str(folder)})


def test_tables_are_read_from_safetensors_and_normalised_where_their_model_says_so(tmp_path):
    from safetensors.numpy import save_file

    folder = save_text("static", tmp_path / "model")
    table = np.load(folder / "table.npy")
    (folder / "table.npy").unlink()
    save_file({"embeddings": table}, folder / "model.safetensors")
    describe_text(folder, model_type="model2vec", normalize=True)
    found = encoded(encoders.load("text", {"model": str(folder)}), ["a dog"])
    assert np.isclose(float(found.norm()), 1.0)
    save_file({"embeddings": table, "weights": table[:, 0].copy()}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match="has several arrays"):
        encoders.load("text", {"model": str(folder)})


def test_unknown_tokens_count_in_other_models_than_those_of_model2vec(tmp_path):
    """Model2vec drops them, too. A text of unknown words alone has no vector there."""
    folder = save_text("static", tmp_path / "model")
    texts = ["a zebra barks", "zebra"]
    others = encoders.load("text", {"model": str(folder)}).token_ids(texts)
    describe_text(folder, model_type="model2vec")
    found = encoders.load("text", {"model": str(folder)}).token_ids(texts)
    assert [len(ids) for ids in others] == [3, 1]
    assert [len(ids) for ids in found] == [2, 0]
    assert found[0].tolist() == others[0][[0, 2]].tolist()
