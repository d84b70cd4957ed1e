"""How a file is refused: the status that cria.h gives it, without CRIA_, and what is wrong."""

OK, INVALID_MODEL, CORRUPT, NOT_A_MODEL, UNSUPPORTED_VERSION, TRUNCATED = (
    "OK", "INVALID_MODEL", "CORRUPT", "NOT_A_MODEL", "UNSUPPORTED_VERSION", "TRUNCATED")


class Refused(Exception):
    def __init__(self, status, problem):
        super().__init__(f"{status}: {problem}")
        self.status, self.problem = status, problem


def require(condition, problem):
    """A rule of the format."""
    if not condition:
        raise Refused(INVALID_MODEL, problem)


def require_undamaged(condition, problem):
    """A checksum, or a byte between two parts."""
    if not condition:
        raise Refused(CORRUPT, problem)
