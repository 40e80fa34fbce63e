"""The YAML that `headrace adopt` writes: it is read as what was meant, whatever names the files have."""

import pytest
import yaml

from headrace.adopt.listing import Layout, listed
from headrace.adopt.yaml_text import yaml_text
from headrace.config.dataset import load_config


@pytest.mark.parametrize("name", ["plain", "with space", "a: b", "# note", "ünïcode", "'quoted'", "line\nbreak", "{x}"])
def test_names_of_any_form_come_back_and_comments_stay_on_their_lines(name, tmp_path):
    root = tmp_path / name
    root.mkdir()
    layout = Layout(f"layout {name}", {"metadata": f"{root}/t.csv"}, ("*.wav", "t.csv"), (f"read {name}",))
    text = yaml_text(layout, listed(root), str(tmp_path / "out"))
    found = yaml.safe_load(text)
    assert found == {
        "source": {"uri": str(root), "metadata": f"{root}/t.csv"},
        "output": {"uri": str(tmp_path / "out")},
    }


def test_what_the_section_does_not_read_is_ignored_by_extension_or_by_name(tmp_path):
    for name in ("a.wav", "notes.md", "more/b[1].txt", "list.txt", "README"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    layout = Layout("table", {"metadata": "list.txt"}, ("*.wav", "list.txt"), group_by="speaker")
    text = yaml_text(layout, listed(tmp_path), str(tmp_path / "out"))
    assert yaml.safe_load(text)["source"]["ignore"] == ["*.md", "README", "b[[]1].txt"]
    assert "# group_by: speaker" in text
    (tmp_path / "mine.yaml").write_text(text)
    assert load_config(tmp_path / "mine.yaml").source.uri == str(tmp_path)


def test_each_key_has_a_line_and_its_comment(tmp_path):
    layout = Layout("tars", {"kind": "webdataset", "options": {"audio_fields": ["mix", "vocals"]}}, ("*.tar",))
    text = yaml_text(layout, listed(tmp_path), str(tmp_path / "out"))
    lines = [line.partition("     # ") for line in text.splitlines() if line.startswith("  ")]
    assert [key for key, _, _ in lines[:3]] == [
        f"  uri: {tmp_path}", "  kind: webdataset", "  options: {audio_fields: [mix, vocals]}"
    ]  # fmt: skip
    assert all(comment for _, _, comment in lines[:2])
