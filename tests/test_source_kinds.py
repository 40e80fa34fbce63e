"""`source.kind` and `source.options`: the registry of kinds, and the errors about them."""

from importlib.metadata import EntryPoint

import pytest

from headrace import source_kinds
from headrace.config.dataset import load_config
from headrace.errors import ConfigError
from headrace.source_kinds import SourceKind, kind_names, source_kind
from tests.support.corpora import build, write_sound


@pytest.fixture
def register(monkeypatch):
    """Registers kinds by name → `module:object`, as installed packages do."""

    def registered(**kinds):
        points = [EntryPoint(name, value, source_kinds.GROUP) for name, value in kinds.items()]

        def entry_points(*, group, name=None):
            assert group == "headrace.sources"
            return [point for point in points if name in {None, point.name}]

        monkeypatch.setattr(source_kinds, "entry_points", entry_points)

    return registered


def write_yaml(folder, **source):
    path = folder / "birds.yaml"
    lines = "".join(f"  {key}: {value}\n" for key, value in {"uri": "x", **source}.items())
    path.write_text(f"source:\n{lines}output: {{uri: out}}\n")
    return path


@pytest.mark.parametrize("name", ["files", "headrace", "kaldi", "lhotse", "nemo", "parquet", "tfrecord", "webdataset"])
def test_each_kind_of_ours_is_one_by_name(name):
    assert isinstance(source_kind(name), SourceKind)
    assert name in kind_names()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"kind": "tape"}, r"source: unknown kind 'tape'; the kinds are files, "),
        ({"kind": 7}, r"source\.kind: expected text"),
        (
            {"kind": "webdataset", "options": "{key_ad: x}"},
            r"options\.key_ad: unknown key; did you mean key_at\? .*kind",
        ),
        ({"kind": "webdataset", "options": "{key_at: x}"}, r"options\.key_at: expected first_dot or last_dot"),
        ({"kind": "kaldi", "options": "{a: 1}"}, r"options\.a: unknown key"),
        ({"options": "{a: 1}"}, r"options\.a: unknown key; .*kind: files"),
        ({"kind": "kaldi", "options": "[a]"}, r"source\.options: expected keys and values"),
        ({"kind": "kaldi", "samples": "files"}, r"samples: files: a source of kind kaldi has rows"),
        ({"kind": "kaldi", "digests": "store"}, r"digests is for kind files, and kind is kaldi"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path, source, said):
    with pytest.raises(ConfigError, match=rf"(?s)birds\.yaml.*{said}"):
        load_config(write_yaml(tmp_path, **source))


def test_a_kind_with_rows_implies_samples_and_the_columns_may_be_given(tmp_path):
    source = load_config(write_yaml(tmp_path, kind="kaldi")).source
    assert (source.samples, source.key_form, source.columns.key) == ("rows", "slug", "id")
    source = load_config(write_yaml(tmp_path, kind="nemo", columns="{key: utt}", key_form="as_is")).source
    assert (source.columns.key, source.columns.start, source.key_form) == ("utt", "offset", "as_is")
    assert load_config(write_yaml(tmp_path)).source.samples == "files"


@pytest.mark.medium
def test_an_installed_package_registers_a_kind_that_is_built_like_ours(tmp_path, register):
    register(rows="tests.support.toy_corpora:ROWS", packs="tests.support.toy_corpora:PACKS")
    write_sound(tmp_path / "corpus/a.wav", 1)
    (tmp_path / "corpus/mine.json").write_text('[{"path": "a.wav", "text": "said"}, {"path": "b.wav", "text": "gone"}]')
    found = build(tmp_path, {"kind": "rows", "uri": "corpus", "options": {"table": "mine.json"}})
    assert [sample["metadata"]["text"] for sample in found.samples.values()] == ["said"]
    assert found.rejects == {"b.wav": "file_rejected"}
    assert {"rows", "packs", "files"} <= set(kind_names())
    with pytest.raises(ConfigError, match=r"options\.tabel: unknown key; did you mean table"):
        load_config(write_yaml(tmp_path, kind="rows", options="{tabel: x}"))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("gone_module:KIND", "gone_module:KIND cannot be imported"),
        ("tests.support.toy_corpora:GONE", "GONE cannot be imported"),
        ("tests.support.toy_corpora:RowItems", "expected a SourceKind"),
    ],
)
def test_a_kind_that_cannot_be_imported_is_an_error_that_names_it(tmp_path, register, place, said):
    register(broken=place)
    with pytest.raises(ConfigError, match=rf"(?s)broken.*{said}"):
        load_config(write_yaml(tmp_path, kind="broken"))
