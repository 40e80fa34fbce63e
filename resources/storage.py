"""The stores of a data set as a Dagster resource."""

import dagster as dg
from pydantic import Field

from headrace.assemble.dataset_stores import DatasetStores


class StorageResource(dg.ConfigurableResource["StorageResource"], DatasetStores):
    """Stores of a data set, with a root that Dagster's configuration can set."""

    root: str = Field(default=".", description="folder to which relative URIs in the configuration are relative")
