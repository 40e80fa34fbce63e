"""Result of a clip or of a window of it: the values of each output, or why there are none. Imports torch."""

from typing import TypeAlias

from torch import Tensor

from headrace.encoding.plans import NoLatents

Made: TypeAlias = tuple[Tensor, ...] | NoLatents
"""For each output its values (T, D), (1, D) of a vector; or why the clip has none."""
