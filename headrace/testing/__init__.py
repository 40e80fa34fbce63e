"""Tiny corpora, configurations and contract suites for tests of projects that use Headrace."""

from headrace.testing.corpora import tiny_config, write_corpus
from headrace.testing.corpus_contract import CorpusContract
from headrace.testing.exporter_contract import ExporterContract

__all__ = ["CorpusContract", "ExporterContract", "tiny_config", "write_corpus"]
