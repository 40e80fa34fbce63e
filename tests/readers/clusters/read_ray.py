"""Prints what Ray Data reads from WebDataset tars: digest of the FLAC, and the JSON, by key."""

import hashlib
import json
import sys
import tempfile

import ray

with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:  # the paths of its sockets must be short
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20, _temp_dir=folder)
    rows = ray.data.read_webdataset(sys.argv[1:]).take_all()
    ray.shutdown()
json.dump({row["__key__"]: [hashlib.sha256(row["flac"]).hexdigest(), row["json"]] for row in rows}, sys.stdout)
