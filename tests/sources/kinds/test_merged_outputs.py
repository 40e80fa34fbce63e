"""Several outputs as one source: their keys, their names, and what they cannot be together.

`tests/sources/kinds/test_output.py` has the contract suite.
"""

import pytest

from headrace.errors import ConfigError
from headrace.sources.sources import open_corpus
from tests.support.corpora import NUM_UTTERANCES, build, folder_and_table


def listed(uri, **options):
    return list(open_corpus("headrace", uri, options).list())


def test_keys_of_several_outputs_differ_or_have_the_names_of_their_outputs(tmp_path):
    form, sources = folder_and_table(tmp_path), [str(tmp_path / name) for name in ("a", "b")]
    for name in ("a", "b"):
        build(tmp_path / f"made-{name}", form, output={"uri": str(tmp_path / name)})
    source = {"kind": "headrace", "uri": sources}
    with pytest.raises(ConfigError, match=r"/a and .*/b both have a sample 'utt-\d'.*\{prefix: true\}"):
        build(tmp_path / "merged", source)
    found = build(tmp_path / "merged", {**source, "options": {"prefix": True}, "duplicates": "keep"})
    assert found.samples.keys() == {f"{name}-utt-{number}" for name in ("a", "b") for number in range(NUM_UTTERANCES)}
    assert {one["metadata"]["headrace"]["source"].partition("/")[0] for one in found.samples.values()} == {"a", "b"}
    assert {one["metadata"]["provenance"]["source"] for one in found.samples.values()} == {
        f"utt-{number}.wav" for number in range(NUM_UTTERANCES)
    }


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("{0}/a,{0}/x/a", {}, "/a and .*/x/a have one name"),
        ("{0}/a,{0}/b", {"snapshot": 1}, "source.uri names several"),
        ("{0}/a,{0}/b", {}, "b: expected an output of Headrace"),
        ("memory://x/a,b", {}, "b: write an absolute path, as other outputs are URLs"),
    ],
)
def test_outputs_that_are_no_source_together_are_errors(tmp_path, uri, options, said):
    build(tmp_path / "made", folder_and_table(tmp_path), output={"uri": str(tmp_path / "a")})
    with pytest.raises(ConfigError, match=said):
        listed(uri.format(tmp_path), **options)
