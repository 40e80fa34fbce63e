"""Lists a source over as many ticks of a sensor as it takes.

A tick must end soon, and a source may have millions of files. So a tick lists for a moment, and the next one goes on
where it stopped. What is listed so far is in the memory of the code server: after its restart the listing begins again.
"""

from dataclasses import dataclass

from headrace.sources.listing import SourceStamps
from headrace.sources.source_changes import GradualListing
from headrace.sources.sources import Source
from headrace_dagster.assets.listing_check import MOST_SECONDS

_LOOK_SECONDS = 1.4  # of a tick
_FORGOTTEN_SECONDS = 300.0  # without a tick, because the sensor was switched off


@dataclass(slots=True)
class SourceListing:
    """The listing of one source, again and again.

    After each listing there is a pause as long as the listing took, so that a large source is not listed all the time.

    Attributes:
        is_late: whether the last listing was given up.
        num_files: how many files it had.
        says: how far the listing is, in words.
    """

    is_late: bool = False
    num_files: int = 0
    says: str = ""
    _under_way: GradualListing | None = None
    _version: str = ""  # of the catalog, when the listing began
    _began: float = 0.0
    _last_tick: float = 0.0
    _rests_until: float = 0.0

    def go_on(self, source: Source, version: str, now: float) -> SourceStamps | None:
        """List for a moment.

        Args:
            source: the source.
            version: of the catalog with which the listing is compared. A listing that began before the catalog was
                made may be older than the catalog, and is dropped.
            now: seconds since 1970.

        Returns:
            The whole listing, or None while it is not complete: `says` has the reason.
        """
        if self._began <= now < self._rests_until:
            self.says = self.says if self.is_late else f"the next listing begins in {self._rests_until - now:.0f} s"
            return None
        listing = self._under_way
        if listing is None or version != self._version or not 0 <= now - self._last_tick < _FORGOTTEN_SECONDS:
            listing, self._version, self._began = GradualListing(source), version, now
        self._last_tick, self._under_way = now, None  # an error ends the listing
        found = listing.go_on(_LOOK_SECONDS)
        self.num_files = listing.num_files
        if found is None and now - self._began < MOST_SECONDS:
            self._under_way, self.says = listing, f"listing the source: {self.num_files} files so far"
            return None
        self._rests_until, self.is_late = now + (now - self._began), found is None
        if self.is_late:
            self.says = (
                f"only {self.num_files} files were listed within {MOST_SECONDS / 3600:g} h: changes of the source are "
                "left to the schedule `refresh`"
            )
        return found
