"""Reads an export with Lhotse Shar."""

import sys

from found import show
from lhotse import CutSet

cuts = CutSet.from_shar(in_dir=f"{sys.argv[1]}/train")
show("lhotse", ((cut.id, cut.load_audio(), cut.supervisions[0].text) for cut in cuts))
