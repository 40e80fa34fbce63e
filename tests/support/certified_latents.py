"""An output of latents with a YAML, for `headrace verify --encode-again`."""

import math

import yaml

from headrace import encoders
from headrace.assemble.commit import commit_latents
from headrace.assemble.latents import LatentSettings
from headrace.cli import main
from tests.support.audio_shards import commit, noise, write_partition
from tests.support.latent_builds import MEL, Broken, Latents


class CertifiedLatents(Latents):
    """Four shards of three samples and their latents, with a YAML."""

    def __init__(self, root, encoder=None, dtype="float32", lengths=None, refused=None):
        super().__init__(root)
        self.root, self.encoder = root, encoder or {"kind": "log_mel", **MEL}
        own = {name: value for name, value in self.encoder.items() if name != "kind"}
        self.encoders = lambda: [Broken({refused: math.nan}) if refused else encoders.load(self.encoder["kind"], own)]
        self.settings = LatentSettings(encoders.fingerprint(self.encoder["kind"], own), dtype)
        names = [[f"s{shard}k{i}" for i in range(3)] for shard in range(4)]
        shards = [
            {key: noise((lengths or {}).get(key, 4000), int(key[1]) * 10 + int(key[3])) for key in keys}
            for keys in names
        ]
        commit(self.audio, write_partition(self.audio, shards))
        self.built = self.build()
        commit_latents(self.audio, self.storage, self.settings)
        self.dtype = dtype

    def yaml(self, **encoder):
        entry = {"name": "mel", "encoder": {**self.encoder, **encoder}, "dtype": self.dtype}
        content = {"source": {"uri": "s"}, "output": {"uri": str(self.root)}, "latents": [entry]}
        (self.root / "mine.yaml").write_text(yaml.safe_dump(content))
        return str(self.root / "mine.yaml")

    def verify(self, *more, share="1", path=None, **encoder):
        return main(
            ["verify", str(path or self.root), "--encode-again", share, "--config", self.yaml(**encoder), *more]
        )
