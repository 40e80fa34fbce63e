"""The kinds of sources besides folders and buckets, one module each; `headrace.source_kinds` names them."""

__all__: list[str] = []
