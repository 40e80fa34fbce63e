import re
import traceback

import pytest

from headrace.config.content import ColumnSetConfig
from headrace.config.dataset import load_config
from headrace.config.partitioning import ShardSize
from headrace.errors import ConfigError

MINIMAL = "source: {uri: recordings}\noutput: {uri: out}\n"


@pytest.fixture
def load(tmp_path):
    """Load a config from text, as a file named demo.yaml."""

    def load_text(text):
        path = tmp_path / "demo.yaml"
        path.write_text(text)
        return load_config(path)

    return load_text


def test_a_shard_has_a_size_in_samples_or_in_bytes(load):
    assert load(MINIMAL + "\nshards: {bytes_per_shard: 100mb}").shards.size == ShardSize(bytes_per_shard=100 << 20)
    assert load(MINIMAL + "\nshards: {bytes_per_shard: 1000000}").shards.size == ShardSize(bytes_per_shard=1_000_000)
    assert load(MINIMAL + "\nshards: {reshuffle: 1}").shards.size == ShardSize(samples_per_shard=50)


def test_every_key_except_two_has_a_default_and_the_file_gives_the_name(load):
    config = load(MINIMAL)
    assert config.name == "demo"
    assert config.splits == {"train": 0.9, "validation": 0.05, "test": 0.05}
    assert config.shards.samples_per_shard == 50
    assert config.latents == ()
    assert config.audio.compression_level == 5
    assert config.partitioning().partition_keys() == ["train-0000", "validation-0000", "test-0000"]


def test_the_documented_file_is_valid(load):
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
    assert len(config.partitioning().partition_keys()) == 10
    assert config.audio.format().sample_rate_hz == 44_100


def test_zero_settle_seconds_and_an_empty_list_of_latents_are_valid(load):
    assert load("source: {uri: a, settle_seconds: 0}\nlatents: []\noutput: {uri: b}\n").source.settle_seconds == 0


WRONG = {
    "source: {uri: a, columns: {key: id}}\noutput: {uri: x}": r"source: columns\.key needs metadata: the table",
    "source: {uri: a, columns: {path: p}}\noutput: {uri: x}": r"source: columns\.path needs metadata: the table",
    "source: {}\noutput: {uri: x}": r"source\.uri: missing",
    "output: {uri: x}": r"source: missing",
    "source: /x\noutput: {uri: x}": r"source: expected keys and values, such as \{uri: …\}; found '/x'",
    "source: {uri: $HOME/a}\noutput: {uri: x}": r"source\.uri: environment variables are .*; found '\$HOME/a'",
    "source: {uri: a, metadata: '${X}/m.csv'}\noutput: {uri: x}": r"\.metadata: environment variables are not expanded",
    "source: {uri: a}\noutput: {uri: s3://$BUCKET/x}": r"output\.uri: environment variables are not expanded here",
    "source: {uri: a}\noutput: {uri: s4://x/y}": r"output\.uri: unknown URL scheme 's4'; expected a path, or a",
    "source: {uri: a}\noutput: {uri: file://~/x}": r"output\.uri: ~ is not allowed in a URL",
    "source: {uri: a}\noutput: {uri: FILE://~/x}": r"output\.uri: ~ is not allowed in a URL",
    'source: {uri: a}\noutput: {uri: "a\\0b"}': r"output\.uri: a path or a URL contains no NUL character",
    "source: {uri: a}\noutput: {uri: file://x/y}": r"output\.uri: file://x/y: a file URL has three slashes",
    "source: {uri: a}\noutput: {uri: 's3://[bad/x'}": r"output\.uri: expected a path or a URL",
    "source: {uri: a, duplicates: merge}\noutput: {uri: x}": r"duplicates: expected keep, drop or group; found 'merge'",
    "source: {uri: a, samples: spans}\noutput: {uri: x}": r"source\.samples: expected files or rows; found 'spans'",
    "source:\n\turi: a": r"not valid YAML: line 2, column 1: a tab; use spaces to indent",
    "source: {uri: ''}\noutput: {uri: x}": r"source\.uri: expected text that is not empty; found ''",
    "source: {uri: }\noutput: {uri: x}": r"source\.uri: expected text; found nothing",
    "source: {uri: a, schema: checks}\noutput: {uri: x}": r"source\.schema: expected module:object, .*; found 'checks'",
    "- a list": r"expected at least source: \{uri: …\} and output: \{uri: …\}; found \['a list'\]",
    "a: [": r"not valid YAML: line 1, column \d: ",
    "": r"expected at least source: \{uri: …\} and output: \{uri: …\}; found nothing",
}
WRONG_KEYS = {
    "views: [clean]": r"views: expected keys and values, such as \{clean: …\}; found \['clean'\]",
    "audoi: {}": r"audoi: unknown key; did you mean audio\?",
    "views: {clean: snr > 20}": r"views\.clean: expected keys and values, such as \{where: …\}; found 'snr > 20'",
    "views: {clean: {wher: snr > 20}}": r"views\.clean\.wher: unknown key; did you mean where\?",
    "views: {clean: {where: ' '}}": r"views\.clean: where is blank",
    "views: {even: {balance: {bye: x, alpha: 1}}}": r"views\.even\.balance\.bye: unknown key; did you mean by\?",
    "columns: [{name: fact, table: x.csv}]": r"\(fact\)\.name: in conditions of views, this name means the facts",
    "audio: " + "[" * 600: r"not valid YAML: lists or sections are nested too deeply",
    "audio: {sample_rat: 3}": r"audio\.sample_rat: unknown key; did you mean sample_rate\?",
    "audio: {sample_rate: true}": r"audio\.sample_rate: true and false are not allowed here .*; found true",
    "audio: {bits_per_sample: 20}": r"audio\.bits_per_sample: expected 16 or 24; found 20",
    "audio: {codec: mp3}": r"audio\.codec: expected flac, opus or copy; found 'mp3'",
    "audio: {bitrate: 64000}": r"audio: bitrate: for codec opus only; leave it out, or set codec: opus, found 64000",
    "audio: {codec: opus, sample_rate: 44100}": r"audio: sample_rate: Opus has 8000, .* 48000 Hz, found 44100",
    "audio: {codec: opus, bits_per_sample: 16}": r"audio: bits_per_sample: Opus has no bit depth",
    "audio: {codec: opus, bitrate: 64}": r"audio: bitrate: expected 6000 to 256000 bits per second for each channel",
    "shards: {bytes_per_shard: much}": r"shards\.bytes_per_shard: expected a number of bytes, such as 100000000 or 1",
    "shards: {samples_per_shard: 50, bytes_per_shard: 100mb}": r"shards: both samples_per_shard: 50 and bytes_",
    "audio: {compression_level: 9}": r"audio\.compression_level: expected at most 8; found 9",
    "splits: {train: 0.5}": r"splits: the shares must add up to 1, but they add up to 0\.5 \(train: 0\.5\)$",
    "splits: {tr_ain: 1.0}": r"splits: split name 'tr_ain': expected a letter, then letters, digits and hyphens$",
    "shards: {partitions: {dev: 2}}": r"shards\.partitions: unknown split dev; the splits are train, validation, test$",
    "schedules: {refresh: {cron: '99 3 * * *'}}": r"schedules.refresh.cron: cron: the minute is '99'",
    "shards: {samples_per_shard: 0}": r"samples_per_shard: expected at least 1; found 0",
    "latents: [{name: a, encoder: {kind: crepe}}, {name: a, encoder: {kind: log_mel}}]": "different name; .* are a, a$",
    "latents: [{name: a, encoder: {kind: x y}}]": r"\[0\] \(a\)\.encoder\.kind: expected one of crepe, .*; found 'x y'",
    "latents: [{name: a}]": r"latents\[0\] \(a\)\.encoder: missing",
    "latents: [{name: a, encoder: {kind: crepe}, dtpe: y}]": r"\(a\)\.dtpe: unknown key; did you mean dtype\?",
    "loader: {num_workers: many}": r"loader\.num_workers: expected a whole number; found 'many'",
    "audio: 44100": r"audio: expected keys and values, such as \{sample_rate: …\}; found 44100",
    "splits: [train]": r"splits: expected keys and values, such as \{train: …\}; found \['train'\]",
    "shards: {partitions: 8}": r"shards\.partitions: expected keys and values, such as \{train: …\}; found 8",
    "latents: {name: a}": r"latents: expected a list: \[…\]; found the keys name",
    "latents: [crepe]": r"latents\[0\]: expected keys and values, such as \{name: …, encoder: …\}; found 'crepe'",
    "latents: [{name: a, encoder: crepe}]": r"\[0\] \(a\)\.encoder: expected keys and values, such as \{kind: …\}",
    "alerts: {email_to: me@x.org}": r"alerts\.email_to: expected a list: \[…\]; found 'me@x\.org'",
    "exclude: [a, 7]": r"exclude: keys are text; write 7 in quotes$",
    "exclude: 3": r"exclude: expected a list of keys: \[…\], or the path or URI of a table with a column `k",
    "exclude: $HOME/keys.csv": r"exclude: environment variables are not expanded here",
    "owners: [audio-data]": r"owners\[0\]: expected an e-mail address, or a team, .*; found 'audio-d",
    "owners: ['team:']": r"owners\[0\]: expected an e-mail address, or a team, .*; found 'team:'",
    "owners: team:audio-data": r"owners: expected a list: \[…\]; found 'team:audio-data'",
    "audio: {sample_rate: 44100.5}": r"audio\.sample_rate: expected a whole number; found 44100\.5",
    "shards: {samples_per_shard: null}": "expected a whole number; remove the key to use its default; found n",
    "drift: {hours: much}": r"drift\.hours: expected a number; found 'much'",
    "schedules: {gc: {enabled: maybe}}": r"schedules\.gc\.enabled: expected true or false; found 'maybe'",
    "group_by: 5": r"group_by: expected text; write it in quotes; found 5",
    "group_by: 2020-01-01": r"group_by: expected text; write it in quotes; found 2020-01-01",
    "splits: {1: 1.0}": r"splits\.1: expected text; write it in quotes; found 1",
    "5: 3": r"  5: expected text; write it in quotes; found 5",
    "latents: [{name: 1x, encoder: {kind: crepe}}]": r"latents\[0\] \(1x\)\.name: expected a letter, then",
    "latents: [{name: a, encoder: {kind: crepe}, dtype: x}]": r"\.dtype: expected float16, bfloat16 or float",
    "latents: [{encoder: {kind: crepe}}]": r"latents\[0\]\.name: missing; this key is required",
    "latents: [{name: a, encoder: {kind: crepe}, frame_aligned: [1]}]": r"\(a\)\.frame_aligned\[0\]: expecte",
}
WRONG |= {MINIMAL + text: words for text, words in WRONG_KEYS.items()}


@pytest.mark.parametrize("text", WRONG)
def test_an_error_about_an_invalid_file_names_file_key_and_expected_value(load, text):
    with pytest.raises(ConfigError, match=rf"(?s)demo\.yaml: .*{WRONG[text]}"):
        load(text)


@pytest.mark.parametrize("text", WRONG)
def test_errors_contain_no_terms_of_python_or_pydantic(load, text):
    with pytest.raises(ConfigError) as caught:
        load(text)
    said = str(caught.value)
    for word in (
        "nput should",
        "tring should",
        "valid string",
        "valid integer",
        "None",
        "NoneType",
        "True",
        "False",
        "<uni",
    ):
        assert word not in said, word
    assert not re.search(r"\w\.\d+\b(?!:)", said.replace("44100.5", "").replace("0.5", "")), said


def test_exclude_is_a_list_of_keys_or_the_name_of_a_table(load):
    assert load(f"{MINIMAL}exclude: [a, '007']").exclude == ("a", "007")
    assert load(f"{MINIMAL}exclude: keys.csv").exclude.uri == "keys.csv"
    assert load(MINIMAL).exclude == load(f"{MINIMAL}exclude:").exclude == load(f"{MINIMAL}exclude: []").exclude == ()


def test_an_empty_section_has_its_defaults(load):
    assert load(f"{MINIMAL}audio:\nlatents:\nsplits:\ngroup_by:\n") == load(MINIMAL)
    with pytest.raises(ConfigError, match="source: missing"):
        load("source:\noutput: {uri: x}\n")


def test_one_message_contains_all_errors(load):
    with pytest.raises(ConfigError) as error:
        load("source: {uri: x}\naudio: {compression_level: 99, nonsense: 1}\n")
    assert str(error.value).count("\n  ") == 3


def test_the_error_about_an_unreadable_file_names_it(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        load_config(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\xe8")
    with pytest.raises(ConfigError, match=r"latin\.yaml"):
        load_config(tmp_path / "latin.yaml")


@pytest.mark.parametrize("name", ["with space.yaml", "1st.yaml", "a.b.yaml"])
def test_a_file_whose_name_cannot_be_an_asset_key_is_rejected(tmp_path, name):
    (tmp_path / name).write_text(MINIMAL)
    with pytest.raises(ConfigError, match="the data set is named after the file"):
        load_config(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MINIMAL + "source: {uri: other}\n", "line 3, column 1: the key 'source' is given twice"),
        (
            "source: {uri: a, uri: b}\noutput: {uri: out}\n",
            "line 1, column 18: the key 'uri' is given twice",
        ),
        (MINIMAL + "name: other\n", "the data set is named after the file, demo"),
        ("source: {uri: ''}\noutput: {uri: ''}\n", "output.uri"),
        (
            "source: {uri: a, settle_seconds: .inf}\noutput: {uri: out}\n",
            "source.settle_seconds: expected a finite number; found inf",
        ),
        (MINIMAL + "audio: {segment_seconds: .inf}\n", "audio.segment_seconds: expected a finite number; found inf"),
    ],
)
def test_mistakes_that_yaml_accepts_silently_are_rejected(load, text, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        load(text)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("2024-13-01", "'2024-13-01' is not a valid timestamp; write text in quotation marks"),
        ("2024-02-30 10:00:00", "is not a valid timestamp"),
        ("2024-02-01 25:00:00", "is not a valid timestamp"),
        ("2024-02-01 10:00:00 +99:00", "is not a valid timestamp"),
        ("0x_", "'0x_' is not a valid int"),
        ("0b_", "'0b_' is not a valid int"),
        ("9" * 5000, "99… is not a valid int"),
        ("!!int ten", "'ten' is not a valid int"),
        ("!!float ten", "'ten' is not a valid float"),
        ("!!bool maybe", "'maybe' is not a valid bool"),
        ("!!timestamp ten", "'ten' is not a valid timestamp"),
        ("!!map ten", "'ten' is not a valid map"),
        ("!!set [ten]", "this is not a valid set"),
    ],
)
@pytest.mark.parametrize("place", ["exclude: [{}]", "loader: {{batch_size: {}}}", "views: {{a: {{where: {}}}}}"])
def test_values_in_the_form_of_a_type_without_being_one_are_errors_with_their_line(load, value, says, place):
    with pytest.raises(ConfigError, match=rf"not valid YAML: line 3, column \d+: .*{re.escape(says)}"):
        load(MINIMAL + place.format(value) + "\n")


@pytest.mark.parametrize(
    "place",
    [
        "group_by: {}",
        "exclude: [{}]",
        "views: {{a: {{where: {}}}}}",
        "owners: [{}]",
        "{}: 1",
        "alerts: {{smtp: {}}}",
    ],
)
@pytest.mark.parametrize("escaped", [r"\ud800", r"a\ude00", r"\ude00\ud83d"])
def test_half_of_a_character_is_an_error_with_its_line(load, place, escaped):
    with pytest.raises(ConfigError, match=r"line 3, column \d+: .* has half of a character"):
        load(MINIMAL + place.format(f'"{escaped}"') + "\n")


def test_two_escaped_halves_are_a_character_as_in_json(load):
    assert load(MINIMAL + r'group_by: "\ud83d\ude00"').group_by == "\U0001f600"


def test_files_settle_within_the_times_that_a_scan_can_count(load):
    with pytest.raises(ConfigError, match=r"source.settle_seconds: expected at most 1e\+09"):
        load("source: {uri: a, settle_seconds: 1e30}\noutput: {uri: out}\n")


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
def test_an_address_in_place_of_a_variable_name_is_rejected_and_not_shown(load, alerts):
    with pytest.raises(ConfigError, match=r"demo\.yaml: (?s:.*)  alerts") as caught:
        load(f"{MINIMAL}alerts: {alerts}\n")
    assert "hidden-token" not in "".join(traceback.format_exception(caught.value))


def test_the_error_about_a_variable_name_says_what_is_expected(load):
    with pytest.raises(
        ConfigError, match=r"alerts\.webhook: expected the name of an environment variable, such as HEAD"
    ):
        load(MINIMAL + "alerts: {webhook: 'https://hooks.example.org/x'}\n")


def test_a_metadata_column_gives_keys_only_if_the_yaml_names_it(load):
    assert load(MINIMAL).source.columns.key is None
    named = load("source: {uri: a, metadata: m.csv, columns: {key: take}}\noutput: {uri: b}\n")
    assert named.source.columns.key == "take"


def test_paths_may_contain_dollar_signs_and_tildes_that_are_not_expanded(load):
    config = load("source: {uri: 'a/US$5/~x'}\noutput: {uri: ~/birds}\n")
    assert (config.source.uri, config.output.uri) == ("a/US$5/~x", "~/birds")


def test_every_key_of_a_schedule_has_a_default(load):
    partly = "schedules: {verify: {enabled: false}, gc: {enabled: true}, history: {days: 7}}\n"
    schedules = load(MINIMAL + partly).schedules
    assert (schedules.verify.cron, schedules.verify.enabled) == ("0 4 * * 0", False)
    assert (schedules.gc.cron, schedules.gc.enabled, schedules.gc.keep) == ("0 6 * * 0", True, 10)
    assert (schedules.history.cron, schedules.history.days) == ("0 5 * * *", 7)
    assert schedules.refresh.enabled


def test_no_number_of_samples_may_be_said_beside_a_number_of_bytes(load):
    config = load(f"{MINIMAL}shards: {{samples_per_shard: null, bytes_per_shard: 1mb}}\n")
    assert config.shards == load(f"{MINIMAL}shards: {{bytes_per_shard: 1mb}}\n").shards


@pytest.mark.parametrize("key", ["on", "'on'"])
def test_a_set_of_columns_says_which_column_is_joined(load, key):
    config = load(f"{MINIMAL}columns: [{{name: captions, table: c.csv, {key}: path}}]\n")
    assert [(entry.name, entry.on) for entry in config.columns] == [("captions", "path")]
    assert config.column_sets == ("metadata", "captions")
    assert ColumnSetConfig.model_validate({"name": "a", "table": "b", True: "key"}).on == "key"  # defs.yaml of Dagster


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("columns: [{name: metadata, table: c.csv}]", "columns.0. .metadata..name: this set holds"),
        ("columns: [{name: a, table: c.csv}, {name: a, table: d.csv}]", "columns: each entry needs a different name"),
        ("columns: [{name: a, table: c.csv, on: row}]", "columns.0. .a..on"),
    ],
)
def test_columns_that_cannot_be_told_apart_are_rejected(load, text, says):
    with pytest.raises(ConfigError, match=says):
        load(f"{MINIMAL}{text}\n")


TEXT = "latents: [{name: c, encoder: {kind: text, model: m}, column: COLUMN}]\n"


def test_texts_are_of_the_metadata_or_of_a_set_of_columns(load):
    text = f"{MINIMAL}columns: [{{name: tags, table: t.csv}}]\n"
    found = {}
    for column in ("caption", "tags.tag", "metadata.a.b", "other.tag"):
        config = load(text + TEXT.replace("COLUMN", column))
        found[column] = config.text_column(config.latents[0])
    assert found == {
        "caption": ("", "caption"),
        "tags.tag": ("tags", "tag"),
        "metadata.a.b": ("metadata", "a.b"),
        "other.tag": ("", "other.tag"),
    }


def test_texts_that_would_not_be_there_are_refused(load):
    optional = f"{MINIMAL}columns: [{{name: tags, table: t.csv, optional: true}}]\n"
    with pytest.raises(ConfigError, match=r"latents \(c\)\.column: the set tags is optional"):
        load(optional + TEXT.replace("COLUMN", "tags.tag"))
    minimal = "source: {uri: a, json: minimal}\noutput: {uri: b}\n"
    with pytest.raises(ConfigError, match=r"minimal leaves without metadata; write metadata\.caption"):
        load(minimal + TEXT.replace("COLUMN", "caption"))
    assert load(minimal + TEXT.replace("COLUMN", "metadata.caption")).latents[0].column == "metadata.caption"
