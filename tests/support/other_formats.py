"""Shared by test_other_formats and the tests beside it."""

import json

LITDATA = json.dumps({"chunks": [{"chunk_bytes": 9, "filename": "chunk-0-0.bin"}], "config": {}}).encode()


MDS = json.dumps({"shards": [{"column_names": ["audio"]}], "version": 2}).encode()
