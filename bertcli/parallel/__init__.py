"""Work on the parts of a stream in several processes: shared, with the results in order, or ahead of who needs it."""

from bertcli.parallel.ahead import Coming, ahead_of_all
from bertcli.parallel.pool import Pool

__all__ = ["Coming", "Pool", "ahead_of_all"]
