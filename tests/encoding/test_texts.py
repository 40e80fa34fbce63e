"""Texts of a column, and the digests by which equal ones are known."""

import pytest

from headrace.encoding.plans import EncodingRun, LatentPlan
from headrace.encoding.texts import digest_of, read_texts, texts_of
from headrace.errors import BuildError, ConfigError
from headrace.format.beside.column_files import publish_columns
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec, ColumnTable
from headrace.format.manifests.manifests import newest_manifest
from headrace.format.shards.writer import ShardPlace
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import noise, write_partition


@pytest.mark.parametrize(
    ("value", "texts"),
    [("a dog", ("a dog",)), ("", ("",)), (["a", None, "b"], ("a", "b")), (None, None), ([], None), ([None], None)],
)
def test_a_value_is_a_text_or_several_or_none(value, texts):
    assert texts_of(value, "caption", "k") == texts


@pytest.mark.parametrize("value", [5, ["a", 5], {"text": "a"}, [["a"]], True])
def test_other_values_are_errors_that_name_the_sample(value):
    with pytest.raises(BuildError, match=r"shard: sample 'k': caption is .*, expected a text or a list of texts"):
        texts_of(value, "caption", "shard: sample 'k'")


def test_texts_are_equal_only_with_all_their_letters():
    assert digest_of("a dog") == digest_of("a dog")
    assert len({digest_of(text) for text in ("a dog", "A dog", "a dog ", "")}) == 4
    assert len(digest_of("é")) == 32


def test_a_column_that_a_set_lacks_is_named_with_those_that_it_has(tmp_path):
    audio, columns = LocalStorage(tmp_path / "audio"), LocalStorage(tmp_path / "columns")
    write_partition(audio, [{"a": noise(800, 0)}])
    (shard,) = newest_manifest(audio, "train-0000").manifest.shards
    place = ShardPlace("train", 0, 0)
    tags = Column.of(ColumnSpec("tag", ColumnKind.JSON), [["rain", "wind"]])
    name, _ = publish_columns(columns, place, ColumnTable((tags,), 1, "", "digest"))
    plan = LatentPlan(shard.name, 0.1, place, "digest", name)
    found = read_texts(EncodingRun(audio, columns, "float32", column="tags.tag", columns=columns), plan)
    assert (found.keys, found.texts) == (("a",), (("rain", "wind"),))
    with pytest.raises(ConfigError, match="no column 'tagg'; the columns are tag"):
        read_texts(EncodingRun(audio, columns, "float32", column="tags.tagg", columns=columns), plan)
