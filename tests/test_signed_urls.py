"""Web URLs lose their query; every other name keeps its question mark."""

import pytest

from headrace.signed_urls import is_signed, unsigned

NAMES = {
    "https://host/a.tar?X-Amz-Signature=1": "https://host/a.tar",
    "http://host/a.tar?x?y/z#w": "http://host/a.tar",
    "https://host/a.tar?": "https://host/a.tar",
    "https://host/a.tar": "https://host/a.tar",
    "s3://bucket/a?b.tar": "s3://bucket/a?b.tar",
    "/data/https://a?b.tar": "/data/https://a?b.tar",
    "a?.tar": "a?.tar",
}


@pytest.mark.parametrize("name", NAMES)
def test_only_web_urls_have_a_query(name):
    assert unsigned(name) == NAMES[name]
    assert is_signed(name) == (NAMES[name] != name)
