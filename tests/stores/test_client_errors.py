"""Error messages about failing stores."""

import pytest

from headrace.errors import ConfigError, NotFoundError, StorageError
from headrace.stores.client_errors import store_fault
from headrace.stores.storage import open_storage
from tests.support.s3 import new_bucket

REQUEST = "Generic S3 error: Error performing list request: Error performing GET http://h/b?list-type=2 in 1ms"
PROPFIND = "Generic HTTP error: Error performing PROPFIND http://h/b in 1s"
STATUS = " - Server returned non-2xx status code: "
XML = '<?xml version="1.0" encoding="utf-8"?>\n<Error><Code>{}</Code><Message>{}</Message><HostId>x</HostId></Error>'
TOKEN = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 2s - HTTP error: no route"


@pytest.mark.parametrize(
    ("said", "uri", "wanted"),
    [
        (
            REQUEST + STATUS + "404 Not Found: " + XML.format("NoSuchBucket", "Not there"),
            "s3://b/rec",
            "s3://b/rec: no such bucket (NoSuchBucket: Not there); create it, or correct the URL; for a store that is",
        ),
        (TOKEN, "s3://b", "s3://b: no credentials found (HTTP error: no route); set AWS_ACCESS_KEY_ID and AWS_SECRET"),
        ("Generic MicrosoftAzure error: Account must be specified", "az://b", "az://b: no credentials found (Generic"),
        (
            REQUEST + STATUS + "403 Forbidden: " + XML.format("AccessDenied", "No."),
            "s3://b",
            "s3://b: denied (AccessDenied: No.); give these credentials the right to it, or set AWS_ACCESS_KEY_ID",
        ),
        (
            REQUEST + STATUS + "503 Slow: " + XML.format("SlowDown", "Later."),
            "s3://b",
            f"s3://b: {REQUEST}{STATUS}503 Slow: SlowDown: Later.",
        ),
        (
            PROPFIND + STATUS + '501 Not Implemented: <!DOCTYPE HTML>\n<html lang="en">',
            "http://h/b",
            f"http://h/b: {PROPFIND}{STATUS}501 Not Implemented",
        ),
        ("", "s3://b", "s3://b: Exception"),
    ],
)
def test_an_error_is_one_line_that_names_the_root_and_a_solution(said, uri, wanted):
    found = store_fault(Exception(said), "", uri)
    assert found.startswith(wanted)
    assert "\n" not in found
    assert "<" not in found


def test_an_error_names_the_object_and_its_store():
    assert store_fault(Exception("no"), "a/b.tar", "s3://b/rec") == "a/b.tar in s3://b/rec: no"


def test_a_url_without_a_host_is_an_error_that_names_it():
    with pytest.raises(ConfigError, match=r"^http:/*: not the URL of a store"):
        list(open_storage("http://").list())


def test_a_missing_bucket_is_reported_as_missing(s3_server, monkeypatch):
    new_bucket(s3_server, monkeypatch)
    storage = open_storage("s3://nobody-made-this/rec")
    with pytest.raises(StorageError, match=r"^s3://nobody-made-this/rec: no such bucket .*AWS_ENDPOINT_URL$"):
        list(storage.list())
    with pytest.raises(NotFoundError, match=r"^a in s3://nobody-made-this/rec: no such bucket"):
        storage.write("a", b"x")


def test_the_error_about_an_object_that_no_listing_passes_names_it_and_says_what_to_do():
    text = 'Encountered object with invalid path: Path "a//b.wav" contained empty path segment\n\nDebug source'
    said = store_fault(ValueError(text), "", "s3://bucket/a")
    assert said.startswith("s3://bucket/a: cannot be listed while an object has such a name: ")
    assert said.endswith('Path "a//b.wav" contained empty path segment; rename or delete that object')
