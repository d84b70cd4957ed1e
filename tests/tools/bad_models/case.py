"""One file that breaks one rule."""
import collections

OK, INVALID, CORRUPT, NOT_A_MODEL, VERSION, TRUNCATED = (
    "OK", "INVALID_MODEL", "CORRUPT", "NOT_A_MODEL", "UNSUPPORTED_VERSION", "TRUNCATED")

# kept: one of the files that every target reads (build/<preset>/tests/data/golden/bad). The others are made when they are tested.
# everywhere: no build may say that it leaves out what is in the file.
Case = collections.namedtuple("Case", "name status rule data kept everywhere")


def case(name, status, rule, data, kept=True, everywhere=True):
    """data: bytes, or a File."""
    return Case(name, status, rule, bytes(getattr(data, "data", data)), kept and everywhere, everywhere)
