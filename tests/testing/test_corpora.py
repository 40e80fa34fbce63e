"""Tiny corpora and configurations for tests of projects that use Headrace."""

import pytest
import soundfile

from headrace.errors import ConfigError
from headrace.testing import tiny_config, write_corpus


def test_a_corpus_has_the_recordings_that_are_asked_for_and_a_row_for_each(tmp_path):
    folder = write_corpus(tmp_path, 3, seconds=0.5, sample_rate_hz=100, num_channels=2)
    assert folder == tmp_path / "recordings"
    assert sorted(path.name for path in folder.iterdir()) == ["rec000.wav", "rec001.wav", "rec002.wav"]
    found = soundfile.info(folder / "rec002.wav")
    assert (found.frames, found.samplerate, found.channels) == (50, 100, 2)
    assert (tmp_path / "metadata.csv").read_text().splitlines()[1:] == [
        f"rec00{number}.wav,recording {number}" for number in range(3)
    ]


def test_a_section_that_is_given_stands_instead_of_that_of_the_configuration(tmp_path):
    config = tiny_config(tmp_path)
    assert (config.name, config.output.uri) == ("tiny", str(tmp_path / "output"))
    assert config.shards.samples_per_shard == 2
    assert tiny_config(tmp_path, shards={"samples_per_shard": 7}).shards.samples_per_shard == 7
    with pytest.raises(ConfigError, match="shards"):
        tiny_config(tmp_path, shards={"colour": 1})
