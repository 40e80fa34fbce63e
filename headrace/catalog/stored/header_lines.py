"""The first line of a catalog's header as a value: what concerns the whole catalog, and the files it is stored in."""

from dataclasses import dataclass

PARTS_FOLDER = "catalog/parts/"


@dataclass(frozen=True, slots=True)
class Part:
    """One immutable file of a catalog.

    Attributes:
        name: file name in `catalog/parts/`; contains the first 12 digits of the digest.
        num_bytes: size of the file.
        sha256: digest of its bytes, hex.
    """

    name: str
    num_bytes: int
    sha256: str

    @property
    def path(self) -> str:
        """Path below the output."""
        return PARTS_FOLDER + self.name


@dataclass(frozen=True, slots=True)
class ScanRecord:
    """Results of a scan besides the tables, so that a scan that would find the same need not be made.

    Attributes:
        inputs: digest of all that the scan depended on besides the files, see
            `headrace.catalog.stored.unchanged.scan_inputs`; empty if the next scan must be made.
        num_found: see `headrace.catalog.scanning.scan.Scan`.
        num_used: likewise.
        num_known: files whose facts are known: opened, reused and resumed ones.
        num_rows: see `Scan`.
        num_left_out_rows: likewise.
        num_left_out_files: likewise.
        num_merged_rows: likewise.
        num_cut_rows: likewise.
        seconds: duration of all recordings.
        num_bytes: size of their files; each file counts once.
        durations: durations of some recordings, for a picture; None without a scan.
    """

    inputs: str = ""
    num_found: int = 0
    num_used: int = 0
    num_known: int = 0
    num_rows: int = 0
    num_left_out_rows: int = 0
    num_left_out_files: int = 0
    num_merged_rows: int = 0
    num_cut_rows: int = 0
    seconds: float = 0.0
    num_bytes: int = 0
    durations: Part | None = None


NO_RECORD = ScanRecord()


@dataclass(frozen=True, slots=True)
class CatalogTotals:
    """The first line of a header: what concerns the whole catalog.

    Attributes:
        dataset: name of the data set that owns the output.
        source: where its recordings were, see `Source.uri`.
        digest: fingerprint of all partitions. It changes if something changes that can reach a shard.
        grouping: the settings that determine the partitions, see `grouping_of`.
        probe_version: version of the probe that read the files.
        num_duplicates: number of recordings whose bytes equal those of an earlier path.
        largest_group: number of recordings in the largest group.
        durations: length in seconds that 10%, 50% and 90% of the rows are shorter than; zeros without rows.
        rejects: (origin, code, number of rejected files or rows), sorted.
        rejected: the table of rejects.
        stamps: the stamps of the files.
        scan: what the scan found besides the tables.
    """

    dataset: str
    source: str
    digest: str
    grouping: str
    probe_version: str
    num_duplicates: int
    largest_group: int
    durations: tuple[float, float, float]
    rejects: tuple[tuple[str, str, int], ...]
    rejected: Part
    stamps: Part
    scan: ScanRecord = NO_RECORD
