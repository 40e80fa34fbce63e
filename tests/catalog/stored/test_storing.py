"""A catalog is stored part by part."""

from contextlib import closing

import polars as pl
import pytest

from headrace.catalog.stored.storing import CatalogWriter
from headrace.config.dataset import DatasetConfig
from headrace.stores.storage import open_storage


def test_a_writer_without_parts_says_so():
    config = DatasetConfig(name="none", source={"uri": "x"}, output={"uri": "memory://"})
    writer = CatalogWriter(open_storage("memory://"), config, "1", None, {})
    with closing(writer), pytest.raises(ValueError, match="no part"):
        writer.finish(pl.DataFrame(schema={"origin": pl.String}))
