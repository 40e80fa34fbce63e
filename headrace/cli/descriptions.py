"""Texts of `headrace COMMAND --help`."""

EPILOG = """\
exit codes: 0 done, no faults · 1 faults found, or not done; they are printed · 2 wrong arguments · 130 interrupted

Paths may be folders or object-store URLs (s3://bucket/prefix; credentials come from the environment, AWS_…).
"""
DESCRIPTIONS = {
    "inspect": """\
Show what is in a data set: splits, shards, samples, hours, bytes, lengths, snapshots, encoders, and rejected files with
their reasons. PATH is an output of Headrace, one of its shard folders, or any folder, glob or sizes.json of WebDataset
tars. Reads snapshots and indexes only, so it is quick on data sets of any size.
""",
    "verify": """\
Read every byte of every shard and compare: the bytes with the digest in the shard's name, the .idx with one made from
the tar, sizes.json with the snapshot, the snapshot with its manifests; and decode some samples of each shard. PATH is
as for inspect; tars that Headrace did not build are checked to be complete WebDatasets that match their .idx and
sizes.json, if any. Faults are listed, and the exit code is then 1. Nothing is changed. With --fraction or --resume, the
file verified.json beside the shards keeps marks of what was verified when.

With --encode-again 0.005 --config NAME.yaml, that share of the samples of latents is encoded again on this device,
at least one of each group that one device, torch, cuDNN and compilation made, and nothing else is read. The largest
error of each output, and of codes the share of equal ones, is stated; the exit code is 1 beyond the bounds.
""",
    "index": """\
Write the .idx beside each tar that matches, and the sizes.json of their folder: loaders then know lengths, and
headrace.StreamingDataset starts at once. Where another tool's file is called X.idx, as DALI's are, that file stays, and
Headrace's is called X.headrace.idx. GLOB is a folder, a shell glob or a brace pattern; quote it. Files are replaced
atomically. sizes.json is written last and only if every tar is valid, and keeps its entries for other tars. Tars that
are cut off or not WebDatasets are listed, and the exit code is then 1. With --columns the JSON, text and class members
of each sample are read as well and become the set of columns metadata, so that columns=, tensors=, where= and views
(headrace view) work as on an output. With --columns or --into only the headers of members and of audio are read, of
tars in a store by ranges; tars that did not change since the last call are not read again. --into is needed where
nothing can be written beside the tars; remote=DIR then reads them.
""",
    "view": """\
Make a view of tars of others that have columns (headrace index --columns): views/NAME, which
StreamingDataset(remote=DIR, view="NAME") reads. --where is a condition on columns, as in the YAML of a data set;
--times is an expression that says how often a sample comes in an epoch: 2.3 is twice, and for three samples of ten once
more. DIR is the folder that has the columns. With another condition, NAME gets a new snapshot. An output with a catalog
is rejected: its build makes its views. Needs polars: pip install "headrace[where]".
""",
    "export": """\
Export one snapshot in a form that other tools read (docs/exports.md): webdataset (train_000000.tar …, sizes.json and
indexes), parquet (Hugging Face), nemo (tarred), lhotse (Shar), energon, dali, croissant, or a form that an installed
package adds. Whole shards are hard links on one local disk, which take no space, and copies otherwise. --view exports
the samples of a view, --columns and --latents join sets of the output. TARGET is an empty folder or an earlier export,
which is updated: its hidden .headrace-export.json lists the files that may be replaced or removed. A folder with other
files is rejected. In a local TARGET nothing is visible until all is written. Never write into exported tars: they may
be the same files as the data set's.
""",
    "columns": """\
Export a set of columns as one Parquet file: key, split and shard of each sample, and its columns. OUTPUT is the output
of a data set, SET the name of the set: metadata (the default), or one of the YAML's columns. Lists and objects are
JSON. FILE is replaced as a whole. Needs polars: pip install "headrace[where]".
""",
    "gc": """\
Remove files that are no longer needed: all but the newest --keep snapshots of audio and of each set of latents,
manifests and shards that neither a kept snapshot nor the newest manifest of a partition names, and temporary files of
writers that died. Columns and views are treated likewise. Audio snapshots that kept latents, columns and views were
made from stay. Files younger than a day stay, and all that a snapshot younger than a day names. A build may run at the
same time. Training jobs on a removed snapshot fail. Files are removed without asking: try --dry-run first, which only
lists them. With --now young files go as well, which is right only while no build is running: nothing is removed if
there is a sign of a build, and a bucket, which shows no such sign, needs --no-build-is-running. Sets of columns and
latents, and views, that left the YAML stay; with --left-behind --config FILE.yaml they are removed as a whole.
""",
    "find": """\
List the files of OUTPUT that hold a sample: shards of audio and latents, columns and views, with the snapshots that
name them. KEY is the key of a sample, or of a recording that was cut into segments; the path of a recording in the
source; or a condition on columns, such as "speaker = 'p225'", of which the newest snapshot is asked. Files that no
snapshot names any more are listed, too, until headrace gc has removed them. The exit code is 1 if there is no such
file. Reads all indexes, and no shard.
""",
    "simulate": """\
Predict what a training job needs on each host: the shards and bytes that it reads, the size of its cache, and, with
--bandwidth and --step-seconds, how long it waits. No shard is read, because the order of samples is a pure function.
PATH is as for inspect, but of an output only the audio is simulated; a local data set is treated as if a store held it.
The options are StreamingDataset's arguments of the same names. Its other arguments can be simulated from Python:
StreamingDataset(…, world=World(0, 64)).simulate(Cluster(8)).
""",
    "seen": """\
List when a run was given a sample: epoch, global batch, row and stream of each delivery up to its state, all earlier
epochs included. STATE is a file with the JSON of state_dict() of the loader or dataset. KEY is the sample's key, which
is looked up in the indexes; the rest follows from the order of samples, and nothing is enumerated. The exit code is 1
if the run was not given the sample.
""",
    "batch": """\
List the samples of one global batch of the epoch of a state: key, stream and shard, and from the JSON of the samples
the entry text and the recording that each was made from. STATE is a file with the JSON of state_dict(). Steps are
counted from the beginning of the epoch, from 0, with the global batch size of the state; batches after the state are
those that the run will be given.
""",
    "bill": """\
Sum up what a run was given up to its state, all earlier epochs included: samples and hours by stream and split, or by
a column. A sample that was delivered twice counts twice; padding does not count. STATE is a file with the JSON of
state_dict(). Hours are those of the stored samples, before a crop.
""",
}
