import re
import traceback

import pytest

from headrace.config import load_config
from headrace.errors import ConfigError

MINIMAL = "source: {uri: recordings}\noutput: {uri: out}\n"


@pytest.fixture
def load(tmp_path):
    """The config of a text, in a file named demo.yaml."""

    def load_text(text):
        path = tmp_path / "demo.yaml"
        path.write_text(text)
        return load_config(path)

    return load_text


def test_every_key_but_two_has_a_default_and_the_name_is_the_files(load):
    config = load(MINIMAL)
    assert config.name == "demo"
    assert config.splits == {"train": 0.9, "validation": 0.05, "test": 0.05}
    assert config.shards.samples_per_shard == 50
    assert config.latents == ()
    assert config.audio.compression_level == 5
    assert config.layout().partition_keys() == ["train-0000", "validation-0000", "test-0000"]


def test_the_documented_file_is_understood(load):
    config = load("""
source:  {uri: datasets/demo/recordings, metadata: datasets/demo/metadata.csv, settle_seconds: 5}
audio:   {sample_rate: 44100, num_channels: 1, bits_per_sample: 16, compression_level: 5, segment_seconds: null}
splits:  {train: 0.9, validation: 0.05, test: 0.05}
group_by: null
shards:  {samples_per_shard: 50, partitions: {train: 8, validation: 1, test: 1}}
latents: [{name: crepe, encoder: {kind: crepe, hop_seconds: 0.02}, dtype: float16}]
loader:  {num_workers: 2, shuffle_buffer: 100, prefetch_factor: 2}
output:  {uri: data/demo}
""")
    assert config.latents[0].encoder.settings == {"hop_seconds": 0.02}
    assert len(config.layout().partition_keys()) == 10
    assert config.audio.format().sample_rate_hz == 44_100


def test_zero_settle_seconds_and_no_latents_are_valid(load):
    assert load("source: {uri: a, settle_seconds: 0}\nlatents: []\noutput: {uri: b}\n").source.settle_seconds == 0


WRONG = {
    "source: {}\noutput: {uri: x}": r"source\.uri: missing",
    "output: {uri: x}": r"source: missing",
    f"{MINIMAL}audoi: {{}}": r"audoi: unknown key; did you mean audio\?",
    f"{MINIMAL}audio: {{sample_rat: 3}}": r"audio\.sample_rat: unknown key; did you mean sample_rate\?",
    f"{MINIMAL}audio: {{sample_rate: true}}": r"audio\.sample_rate: true and false are no values of this key",
    f"{MINIMAL}audio: {{bits_per_sample: 20}}": r"audio\.bits_per_sample: input should be 16 or 24; found 20",
    f"{MINIMAL}audio: {{compression_level: 9}}": r"audio\.compression_level: .*less than or equal to 8; found 9",
    f"{MINIMAL}splits: {{train: 0.5}}": r"splits: shares must add up to 1, they add up to 0\.5",
    f"{MINIMAL}splits: {{tr_ain: 1.0}}": r"splits: split name 'tr_ain'",
    f"{MINIMAL}shards: {{partitions: {{dev: 2}}}}": r"shards\.partitions names \['dev'\]",
    f"{MINIMAL}schedules: {{refresh: {{cron: '99 3 * * *'}}}}": r"schedules.refresh.cron: cron: the minute is '99'",
    f"{MINIMAL}shards: {{samples_per_shard: 0}}": r"samples_per_shard: .*greater than or equal to 1",
    f"{MINIMAL}latents: [{{name: a, encoder: {{kind: crepe}}}}, {{name: a, encoder: {{kind: log_mel}}}}]": "latents: e",
    f"{MINIMAL}latents: [{{name: a, encoder: {{kind: x y}}}}]": "encoder kind 'x y' is not known; there are",
    f"{MINIMAL}latents: [{{name: a}}]": r"latents\.0\.encoder: missing",
    f"{MINIMAL}latents: [{{name: a, encoder: {{kind: crepe}}, dtpe: y}}]": r"dtpe: unknown key; did you mean dtype\?",
    f"{MINIMAL}loader: {{num_workers: many}}": r"loader\.num_workers: .*found 'many'",
    "source: /x\noutput: {uri: x}": r"source: expected keys, such as \{uri: …\}; found '/x'",
    f"{MINIMAL}audio: 44100": r"audio: expected keys, such as \{sample_rate: …\}; found 44100",
    f"{MINIMAL}splits: [train]": r"splits: expected keys, such as \{train: …\}; found \['train'\]",
    f"{MINIMAL}shards: {{partitions: 8}}": r"shards\.partitions: expected keys, such as \{train: …\}; found 8",
    f"{MINIMAL}latents: {{name: a}}": r"latents: expected a list: \[…\]; found \{'name': 'a'\}",
    f"{MINIMAL}latents: [crepe]": r"latents\.0: expected keys, such as \{name: …, encoder: …\}; found 'crepe'",
    f"{MINIMAL}latents: [{{name: a, encoder: crepe}}]": r"latents\.0\.encoder: expected keys, such as \{kind: …\}",
    f"{MINIMAL}alerts: {{email_to: me@x.org}}": r"alerts\.email_to: expected a list: \[…\]; found 'me@x\.org'",
    "source: {uri: $HOME/a}\noutput: {uri: x}": r"source\.uri: variables are not filled in here; .*found '\$HOME/a'",
    "source: {uri: a, metadata: '${X}/m.csv'}\noutput: {uri: x}": r"source\.metadata: variables are not filled in here",
    "source: {uri: a}\noutput: {uri: s3://$BUCKET/x}": r"output\.uri: variables are not filled in here",
    "source: {uri: a}\noutput: {uri: file://~/x}": r"output\.uri: ~ is for paths",
    "source: {uri: a}\noutput: {uri: 's3://[bad/x'}": r"output\.uri: this is neither a path nor a URL",
    "- a list": r"expected keys like source: and output:, found list",
    "a: [": r"not valid YAML",
    "": r"expected keys like source: and output:",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_file_is_refused_by_file_key_and_what_was_expected(load, text):
    with pytest.raises(ConfigError, match=rf"(?s)demo\.yaml: .*{WRONG[text]}"):
        load(text)


def test_an_empty_section_is_its_defaults(load):
    assert load(f"{MINIMAL}audio:\nlatents:\nsplits:\ngroup_by:\n") == load(MINIMAL)
    with pytest.raises(ConfigError, match="source: missing"):
        load("source:\noutput: {uri: x}\n")


def test_all_faults_come_in_one_message(load):
    with pytest.raises(ConfigError) as error:
        load("source: {uri: x}\naudio: {compression_level: 99, nonsense: 1}\n")
    assert str(error.value).count("\n  ") == 3


def test_a_file_that_cannot_be_read_is_said_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        load_config(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\xe8")
    with pytest.raises(ConfigError, match=r"latin\.yaml"):
        load_config(tmp_path / "latin.yaml")


@pytest.mark.parametrize("name", ["with space.yaml", "1st.yaml", "a.b.yaml"])
def test_a_file_whose_name_cannot_be_an_asset_key_is_refused(tmp_path, name):
    (tmp_path / name).write_text(MINIMAL)
    with pytest.raises(ConfigError, match="the file's name is the data set's"):
        load_config(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MINIMAL + "source: {uri: other}\n", "the key 'source' stands twice"),
        ("source: {uri: a, uri: b}\noutput: {uri: out}\n", "the key 'uri' stands twice"),
        (MINIMAL + "name: other\n", "a data set has its file's name, demo"),
        ("source: {uri: ''}\noutput: {uri: ''}\n", "output.uri"),
        (
            "source: {uri: a, settle_seconds: .inf}\noutput: {uri: out}\n",
            "source.settle_seconds: input should be a fin",
        ),
        (MINIMAL + "audio: {segment_seconds: .inf}\n", "audio.segment_seconds: input should be a finite number"),
    ],
)
def test_what_yaml_would_let_pass_in_silence_is_refused(load, text, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        load(text)


@pytest.mark.parametrize(
    "alerts",
    [
        "{webhook: 'https://hooks.example.org/hidden-token'}",
        "{smtp: 'smtp://user:hidden-token@mail.example.org:587'}",
        "{webhook: [hidden-token]}",
        "{webhook: {url: hidden-token}}",
        "hidden-token",
        "{webhook: $hidden-token}",
        "{url: hidden-token}",
    ],
)
def test_an_address_in_the_place_of_a_variable_is_refused_and_not_shown(load, alerts):
    with pytest.raises(ConfigError, match=r"demo\.yaml: (?s:.*)  alerts") as caught:
        load(f"{MINIMAL}alerts: {alerts}\n")
    assert "hidden-token" not in "".join(traceback.format_exception(caught.value))


def test_what_belongs_in_the_place_of_a_variable_is_said(load):
    with pytest.raises(
        ConfigError, match=r"alerts\.webhook: expected the name of an environment variable, such as HEAD"
    ):
        load(MINIMAL + "alerts: {webhook: 'https://hooks.example.org/x'}\n")


def test_a_metadata_column_gives_keys_only_where_it_is_asked_to(load):
    assert load(MINIMAL).source.key_column is None
    assert load("source: {uri: a, key_column: take}\noutput: {uri: b}\n").source.key_column == "take"


def test_paths_may_hold_dollars_and_tildes_that_name_nothing(load):
    config = load("source: {uri: 'a/US$5/~x'}\noutput: {uri: ~/birds}\n")
    assert (config.source.uri, config.output.uri) == ("a/US$5/~x", "~/birds")


def test_every_key_of_a_schedule_has_its_default(load):
    partly = "schedules: {verify: {enabled: false}, gc: {enabled: true}, history: {days: 7}}\n"
    schedules = load(MINIMAL + partly).schedules
    assert (schedules.verify.cron, schedules.verify.enabled) == ("0 4 * * 0", False)
    assert (schedules.gc.cron, schedules.gc.enabled, schedules.gc.keep) == ("0 6 * * 0", True, 10)
    assert (schedules.history.cron, schedules.history.days) == ("0 5 * * *", 7)
    assert schedules.refresh.enabled
