"""The sections that say what is made: audio, shards, latents, columns and views."""

import pytest
from pydantic import ValidationError

from headrace.audio import AudioFormat, Codec
from headrace.config.content import (
    AudioConfig,
    ColumnSetConfig,
    EncoderConfig,
    LatentsConfig,
    ShardsConfig,
    ViewConfig,
)
from headrace.config.partitioning import ShardSize


def test_the_format_of_the_audio_is_the_librarys_own():
    section = AudioConfig(sample_rate=16_000, num_channels=1, codec="opus", bitrate=32_000)
    assert section.format() == AudioFormat(sample_rate_hz=16_000, num_channels=1, codec=Codec.OPUS, bitrate=32_000)
    with pytest.raises(ValidationError, match="bitrate: for codec opus only"):
        AudioConfig(bitrate=32_000)


def test_only_one_size_of_a_shard_is_given():
    assert ShardsConfig().size == ShardSize(samples_per_shard=50)
    assert ShardsConfig(bytes_per_shard="100mb").size == ShardSize(bytes_per_shard=100 << 20)
    assert ShardsConfig(bytes_per_shard=10, samples_per_shard=None).size == ShardSize(bytes_per_shard=10)
    with pytest.raises(ValidationError, match="both samples_per_shard: 5 and bytes_per_shard: 10 are given"):
        ShardsConfig(bytes_per_shard=10, samples_per_shard=5)
    with pytest.raises(ValidationError, match="expected a number of bytes"):
        ShardsConfig(bytes_per_shard="large")


def test_an_encoder_keeps_its_own_settings_and_has_a_known_kind():
    assert EncoderConfig(kind="log_mel", n_mels=4).settings == {"n_mels": 4}
    with pytest.raises(ValidationError, match="expected one of"):
        EncoderConfig(kind="unknown")


def test_the_field_of_latents_is_named_field_and_columns_are_listed_once():
    latents = {"name": "mel", "encoder": {"kind": "log_mel"}}
    assert LatentsConfig(**latents, field="voice").audio_field == "voice"
    with pytest.raises(ValidationError, match="listed twice: a, a"):
        LatentsConfig(**latents, frame_aligned=["a", "a"])


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        ({}, {"key": "key", "path": "path"}),
        ({"on": "path"}, {"path": "path"}),
        ({True: "key"}, {"key": "key"}),
        ({"key": "id"}, {"key": "id"}),
        ({"path": "file", "on": "path"}, {"path": "file"}),
    ],
)
def test_a_table_is_joined_by_key_or_by_path(given, joined):
    assert ColumnSetConfig.model_validate({"name": "n", "table": "t.csv", **given}).joined == joined


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"key": "a", "path": "b"}, "both key and path are given"),
        ({"key": "a", "on": "path"}, "on: path contradicts key: a"),
        ({"name": "metadata"}, "this set holds source.metadata"),
        ({"name": "fact"}, "this name means the facts of the catalog"),
    ],
)
def test_contradictions_and_reserved_names_of_columns_are_errors(given, message):
    with pytest.raises(ValidationError, match=message):
        ColumnSetConfig.model_validate({"name": "n", "table": "t.csv", **given})


def test_a_view_chooses_something():
    assert ViewConfig(where="a = 1").balance is None
    with pytest.raises(ValidationError, match="a view needs `where`, `balance` or `times`"):
        ViewConfig()
    with pytest.raises(ValidationError, match="name one of them"):
        ViewConfig(times="2", balance={"by": "speaker", "alpha": 0.5})
    with pytest.raises(ValidationError, match="where is blank"):
        ViewConfig(where="  ")


def test_texts_need_a_column_and_nothing_else_has_one():
    text = {"name": "captions", "encoder": {"kind": "text", "model": "m"}}
    assert LatentsConfig(**text, column="caption").column == "caption"
    with pytest.raises(ValidationError, match="encoders of kind text need the column with the texts"):
        LatentsConfig(**text)
    with pytest.raises(ValidationError, match="others take none"):
        LatentsConfig(name="mel", encoder={"kind": "log_mel"}, column="caption")
    for other in ({"field": "voice"}, {"frame_aligned": ["a"]}):
        with pytest.raises(ValidationError, match="have neither `field` nor `frame_aligned`"):
            LatentsConfig(**text, column="caption", **other)
