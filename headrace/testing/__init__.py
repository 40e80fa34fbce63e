"""Tiny corpora, configurations and contract suites for tests of projects that use Headrace."""

import importlib
from typing import TYPE_CHECKING, Any

from headrace.testing.corpora import tiny_config, write_corpus
from headrace.testing.corpus_contract import CorpusContract
from headrace.testing.exporter_contract import ExporterContract

if TYPE_CHECKING:
    from headrace.testing.encoder_contract import EncoderContract
    from headrace.testing.field_contract import FieldContract
    from headrace.testing.storage_contract import StorageContract

__all__ = [
    "CorpusContract",
    "EncoderContract",
    "ExporterContract",
    "FieldContract",
    "StorageContract",
    "tiny_config",
    "write_corpus",
]

_LATER = {  # they import torch, or pytest
    "EncoderContract": "encoder_contract",
    "FieldContract": "field_contract",
    "StorageContract": "storage_contract",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class
    """Import a suite when it is used."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
