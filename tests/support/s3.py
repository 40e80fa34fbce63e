"""Creates buckets on the S3 server of the fixture `s3_server`."""

import os
import threading
import urllib.request
from contextlib import contextmanager
from unittest import mock


def new_bucket(server, monkeypatch):
    """Create an empty bucket. Returns its URL; clients find the server through the environment."""
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    bucket = f"bucket-{os.urandom(6).hex()}"
    urllib.request.urlopen(urllib.request.Request(f"{server}/{bucket}", method="PUT")).close()
    return f"s3://{bucket}"


@contextmanager
def one_write_at_a_time():
    """A block in which moto's threads write one after the other: it checks a condition of a PUT before it writes."""
    from moto.s3.responses import S3Response

    lock, put = threading.Lock(), S3Response._key_response_put

    def locked(*args, **options):
        with lock:
            return put(*args, **options)

    with mock.patch.object(S3Response, "_key_response_put", locked):
        yield
