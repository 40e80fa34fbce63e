"""Files beside the shards: columns and views."""
