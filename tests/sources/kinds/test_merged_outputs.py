"""Several outputs as one source: their keys, their names, and what they cannot be together.

`tests/sources/kinds/test_output.py` has the contract suite.
"""

import pytest

from headrace.errors import ConfigError
from headrace.sources.kinds.merged_outputs import MergedItems
from headrace.sources.sources import open_corpus
from tests.support.corpora import NUM_UTTERANCES, build, folder_and_table

pytestmark = pytest.mark.medium


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


def keys_of(uri, **options):
    return {row["id"] for row in open_corpus("headrace", uri, options).rows().read()}


def test_one_output_with_a_prefix_has_the_keys_and_paths_that_it_has_beside_another(tmp_path):
    for name in ("a", "b"):
        build(tmp_path / f"made-{name}", folder_and_table(tmp_path), output={"uri": str(tmp_path / name)})
    one, both = f"{tmp_path}/a", f"{tmp_path}/a,{tmp_path}/b"
    assert keys_of(one, prefix=True) == {f"a-utt-{number}" for number in range(NUM_UTTERANCES)}
    assert keys_of(one, prefix=True, snapshot=1) < keys_of(both, prefix=True)
    paths = [{path for listing in listed(uri, prefix=True) for path in listing.path} for uri in (one, both)]
    assert paths[0] < paths[1]


class Output:
    """An output with one sample."""

    def __init__(self, root, key):
        self.root, self.name, self.key = root, root[1:], key

    def rows(self):
        return iter([{"id": self.key}])

    def has(self, key):
        return key == self.key


@pytest.mark.parametrize(
    ("keys", "is_prefixed", "said"),
    [
        (("b-x", "x"), True, "/a and /a-b both .* 'a-b-x'; rename"),
        (("x", "x"), False, "/a and /a-b both .*'x'; .*prefix: true"),
    ],
)
def test_outputs_with_one_key_are_named_with_what_helps(keys, is_prefixed, said):
    outputs = tuple(map(Output, ("/a", "/a-b"), keys))
    with pytest.raises(ConfigError, match=said):
        list(MergedItems(outputs, is_prefixed=is_prefixed).rows())


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("{0}/a,{0}/x/a", {}, "/a and .*/x/a have one name"),
        ("{0}/a,{0}/b.v2", {"prefix": True}, "'b.v2' would be part of keys"),
        ("{0}/a,{0}/b", {"snapshot": 1}, "source.uri names several"),
        ("{0}/a,{0}/b", {}, "b: expected an output of Headrace"),
        ("memory://x/a,b", {}, "b: write an absolute path, as other outputs are URLs"),
    ],
)
def test_outputs_that_are_no_source_together_are_errors(tmp_path, uri, options, said):
    build(tmp_path / "made", folder_and_table(tmp_path), output={"uri": str(tmp_path / "a")})
    with pytest.raises(ConfigError, match=said):
        listed(uri.format(tmp_path), **options)
