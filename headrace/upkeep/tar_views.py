"""Makes a view of tars of others that have columns, and of outputs without a catalog: the command `headrace view`."""

from headrace.assemble.views import WantedView, build_view
from headrace.catalog.stored.header import HEADER_PATH
from headrace.config.section import checked_name
from headrace.errors import ConfigError
from headrace.format.beside.views import NumberedView, ViewDefinition
from headrace.format.snapshots.snapshots import snapshot_numbers
from headrace.format.snapshots.tar_lists import TARS
from headrace.locate.outputs import AUDIO, possible_folders
from headrace.stores.storage import Storage, open_storage


def make_view(named: str, name: str, where: str | None = None, times: str | None = None) -> tuple[NumberedView, bool]:
    """Make the view `named`/views/`name` of the newest snapshot, by a condition and how often samples come.

    Returns:
        The newest snapshot of the view, and whether it is new.

    Raises:
        ConfigError: neither `where` nor `times` is given or one of them is not valid, the name is not valid, the folder
            is an output with a catalog, whose views the build makes, or it has no columns.
    """
    if where is None and times is None:
        raise ConfigError("pass --where, --times or both: a view of all samples once needs no view")
    try:
        checked_name(name)
    except ValueError as error:
        raise ConfigError(f"--name {name!r}: {error}") from error
    folder = open_storage(named)
    if folder.exists(HEADER_PATH):
        raise ConfigError(
            f"{named}: has a catalog, so its build makes its views: write {name} under `views:` in the YAML file of "
            "the data set, and build"
        )
    samples = TARS if snapshot_numbers(folder.at(TARS)) else AUDIO
    if samples == AUDIO and not snapshot_numbers(folder.at(AUDIO)):
        raise ConfigError(
            f"{named}: has no columns: run `headrace index --columns` first, and name the folder it wrote"
        )
    return build_view(folder, WantedView(name, ViewDefinition(where, times=times), _sets(folder), samples=samples))


def _sets(folder: Storage) -> tuple[str, ...]:
    """Names of the sets of columns."""
    return tuple(part.rpartition("/")[2] for part in possible_folders(folder) if part.startswith("columns/"))
