"""The systems that `benchmarks/read.py` compares: ours, the machine's limits, and one file for each peer.

A file here is one system's way to shuffled batches of 32 on the same clips: `read(run)` gives `clips.Batch` after
`Batch`, and `prepare(run)` does what its users do once and what no clock sees (an index, a conversion). It imports its
system at the top, for imports are not measured. Systems are listed in `systems.py`, with the package that each needs:
`measure.py` runs one under the first interpreter that has it.

Peers get what their documents and our trials found best: our tars where they read WebDataset, else a conversion with
as many samples a shard; all shards open (wids); two workers or none, whichever is faster. Each is read in two forms
(`clips.DOCUMENTED`, `clips.BEST`): with libsndfile and `torch.load`, as their documents show it; and with our FLAC
decoder and latents as arrays of their own format. DALI decodes FLAC itself; its best form has its index built.

Some peers cannot share an environment with ours or with each other. Make theirs anywhere:

    for name in dali mosaic others lance grain; do
        python3.11 -m venv PEERS/$name
        [ $name = dali ] || PEERS/$name/bin/pip install torch==2.13.0
        PEERS/$name/bin/pip install --no-deps -r benchmarks/peers/requirements/$name.txt
    done
    python benchmarks/read.py --peers-python PEERS/*/bin/python

The lists are whole, and `--no-deps` keeps out what else would come: torchvision, and a torch to suit it. All but DALI's
hold our decoder; where `make decoder` compiled ours, compile theirs: `tools/compile-decoder PEERS/$name/bin/python`.
"""
