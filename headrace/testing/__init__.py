"""Tiny corpora, configurations and contract suites for tests of projects that use Headrace."""

from headrace.testing.corpora import tiny_config, write_corpus
from headrace.testing.corpus_contract import CorpusContract

__all__ = ["CorpusContract", "tiny_config", "write_corpus"]
