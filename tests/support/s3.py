"""Creates buckets on the S3 server of the fixture `s3_server`."""

import os
import urllib.request


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
