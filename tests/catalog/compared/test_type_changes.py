"""A column that has another type than in the scan before is named."""

import polars as pl

from headrace.catalog.compared.type_changes import column_types, type_changes
from headrace.catalog.stored.parts import StoredCatalog
from headrace.catalog.stored.update import update_catalog
from headrace.stores.storage import open_storage
from tests.support.catalog_fakes import fake_runtime
from tests.support.row_hints import config_of, source_of


def test_a_column_that_got_another_type_is_named():
    output, source = open_storage("memory://"), source_of("a.wav", "b.wav", "c.wav")
    assert column_types(None) == {}

    def stored(**columns):
        table = pl.DataFrame({"path": ["a.wav", "b.wav"], **columns})
        return StoredCatalog(output, update_catalog(config_of(), source, table, output, fake_runtime())[1])

    before = column_types(stored(votes=[1, 2], sha256=["x", "y"], tags=[[1], []], gone=[True, False]))
    assert before == {"votes": "int", "sha256": "text", "tags": "list", "gone": "bool"}
    after = column_types(stored(votes=["1", "many"], sha256=["x", "y"], tags=[[1], []], new=[1.5, 2.5]))
    (line,) = type_changes(before, after, "the metadata")
    assert line.startswith("the metadata: column 'votes' was int and is text now; declare it in `types`")
    assert type_changes(after, after, "the metadata") == []
