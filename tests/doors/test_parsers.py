"""Every place that parses bytes by a library is known: a new one is compared with what bounds its memory and errors.

JSON of files goes through `json_value`, `versioned_json`, `parsed` or `parsed_json`; pickles through `unpickled`;
arrays through `tables` or `decoded`.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("headrace", "headrace_dagster", "assets", "sensors", "resources")
PARSERS = {
    *("json.load", "json.loads", "json.JSONDecoder", "yaml.load", "yaml.safe_load", "yaml.full_load", "tomllib.load"),
    *("np.load", "np.loadtxt", "np.genfromtxt", "np.fromfile", "np.fromstring", "np.lib.format.read_array"),
    *("torch.load", "torch.jit.load", "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads"),
    *("struct.unpack", "struct.unpack_from", "struct.iter_unpack", "zipfile.ZipFile", "tarfile.open"),
    *("pl.read_parquet", "pl.read_csv", "pl.read_json", "pl.read_ndjson", "pl.read_ipc", "pl.scan_parquet"),
    *("pl.scan_csv", "pl.scan_ndjson", "csv.reader", "csv.DictReader", "Image.open", "ElementTree.fromstring"),
    *("load_file", "safe_open", "literal_eval", "ast.literal_eval", "eval", "exec", "joblib.load", "pq.read_table"),
    *("pq.ParquetFile", "ParquetFile"),
}

KNOWN = {
    ("headrace/adopt/command.py", "yaml.safe_load"): "the text that it has just made",
    ("headrace_dagster/build_command/standing.py", "yaml.safe_load"): "Dagster's own settings, as Dagster reads them",
    ("headrace/adopt/corpora.py", "json.JSONDecoder"): "the first lines of a file",
    ("headrace/adopt/corpora.py", "pl.scan_parquet"): "the schema in a footer; errors are another layout",
    ("headrace/adopt/listing.py", "pl.scan_parquet"): "its first rows; errors are another layout",
    ("headrace/adopt/listing.py", "tarfile.open"): "names of the first members",
    ("headrace/testing/field_contract.py", "torch.load"): "of the suite itself; weights_only",
    ("headrace/upkeep/takedown.py", "pl.read_parquet"): "of Headrace, below its folder; errors are translated",
    ("headrace/adopt/tables.py", "csv.DictReader"): "the first lines of a file",
    ("headrace/stores/hub.py", "json.loads"): "an answer of the Hub; this floor has no `json_value`",
    ("headrace/streaming/run/planner.py", "json.loads"): "the beginning that another rank of this run has written",
    ("headrace/audio/channels.py", "struct.iter_unpack"): "whole descriptions of a chunk that was read",
    ("headrace/audio/channels.py", "struct.unpack"): "12 bytes",
    ("headrace/audio/headers.py", "struct.unpack"): "as many bytes as its form has",
    ("headrace/catalog/scanning/checkpoint.py", "pl.read_parquet"): "of Headrace, below its folder",
    ("headrace/catalog/stored/parquet_files.py", "pl.read_parquet"): "of Headrace; errors are translated",
    ("headrace/catalog/tables/delimited_rows.py", "csv.reader"): "the user's table, line by line",
    ("headrace/catalog/tables/json_arrays.py", "json.JSONDecoder"): "the user's table, element by element",
    ("headrace/catalog/tables/json_lines.py", "pl.read_ndjson"): "the user's table, piece by piece",
    ("headrace/catalog/tables/json_lines.py", "pl.scan_ndjson"): "the user's table, mapped",
    ("headrace/catalog/tables/parquet_tables.py", "pl.scan_parquet"): "the user's table, some rows at a time",
    ("headrace/config/dataset.py", "yaml.load"): "the user's YAML, by a SafeLoader with a limit",
    ("headrace/encoders/transformers_loading.py", "json.loads"): "a model's settings; this floor has no `json_value`",
    ("headrace/encoders/weights.py", "torch.load"): "weights that the user installed; weights_only",
    ("headrace/format/tars/tar.py", "tarfile.open"): "headers; `check_member` judges each",
    ("headrace/format/tensors/pth.py", "zipfile.ZipFile"): "after `unpickled`, or CRCs of its members, piece by piece",
    ("headrace/format/tensors/unpickling.py", "torch.load"): "after its sizes; weights_only",
    ("headrace/format/tensors/unpickling.py", "zipfile.ZipFile"): "its list of members",
    ("headrace/format/typed_json.py", "json.loads"): "`json_value`",
    ("headrace/plain/tars.py", "tarfile.open"): "headers; `check_member` judges each",
    ("headrace/sources/kinds/parquet.py", "pl.scan_parquet"): "the user's table, some rows at a time",
    ("headrace/sources/kinds/row_groups.py", "struct.unpack"): "8 bytes of a footer",
    ("headrace/sources/kinds/tf_examples.py", "struct.iter_unpack"): "whole floats of a record, up to 1,001",
    ("headrace/encoders/text_settings.py", "json.loads"): "a model's settings; this floor has no `json_value`",
    ("headrace/encoders/text_static.py", "load_file"): "the user's token vectors, named in the YAML",
    ("headrace/encoders/text_static.py", "np.load"): "the user's token vectors; allow_pickle=False",
    ("headrace/features/custom.py", "json.loads"): "the settings that it has just written",
    ("headrace/encoders/kmeans_units.py", "load_file"): "the user's centroids, named in the YAML",
    ("headrace/encoders/kmeans_units.py", "np.load"): "the user's centroids; allow_pickle=False",
    ("headrace/testing/corpus_contract.py", "pickle.loads"): "what the test pickled",
    ("headrace/testing/storage_contract.py", "pickle.loads"): "what the test pickled",
    ("headrace/streaming/batches/json_texts.py", "json.JSONDecoder"): "`parsed`",
    ("headrace/streaming/batches/worker_batches.py", "pickle.loads"): "from a worker of the same job",
    ("headrace/streaming/run/progress.py", "json.loads"): "shared memory of the same job",
    ("headrace/streaming/samples/decoded_fields.py", "Image.open"): "the size is compared before pixels are decoded",
    ("headrace/streaming/samples/decoded_fields.py", "np.lib.format.read_array"): "the shape is compared before",
    ("headrace/streaming/samples/decoded_fields.py", "zipfile.ZipFile"): "the sizes of its members are compared before",
    ("sensors/alerts.py", "json.loads"): "the sensor's own cursor",
    ("sensors/missing_shards.py", "json.loads"): "the sensor's own cursor",
}


WORDS = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in PARSERS))
"""Parsing and walking all modules takes seconds; most have none of these names in any place."""


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an expression; another text for others."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def parsers_in(text: str) -> Counter[str]:
    """Names of parsers that a module uses, called or passed on."""
    names = map(dotted, ast.walk(ast.parse(text))) if WORDS.search(text) else ()
    return Counter(name for name in names if name in PARSERS)


@pytest.mark.medium
def test_every_place_that_parses_a_file_is_known():
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    found = {(str(path.relative_to(ROOT)), name) for path in files for name in parsers_in(path.read_text())}
    assert dict.fromkeys(found - KNOWN.keys(), "new: bound its memory and errors") == {}
    assert dict.fromkeys(KNOWN.keys() - found, "gone") == {}


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_a_new_parser_is_found(name):
    assert parsers_in(f"def read(blob):\n    return list(map({name}, [blob])), {name}(blob)") == {name: 2}


@pytest.mark.parametrize("module", ["json", "pickle", "struct", "yaml", "marshal"])
def test_parsers_are_called_by_the_names_of_their_modules(module):
    texts = [path.read_text() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    named = [text for text in texts if re.search(rf"import\b.*\b{module} +as\b|from +{module} ", text)]
    imports = [node for text in named for node in ast.walk(ast.parse(text)) if is_import(node, module)]
    assert imports == []


def is_import(node: ast.AST, module: str) -> bool:
    """Whether a statement imports a name out of a module, or the module by another name."""
    if isinstance(node, ast.ImportFrom):
        return node.module == module
    return isinstance(node, ast.Import) and any(alias.name == module and alias.asname for alias in node.names)
