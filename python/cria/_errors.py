"""What can go wrong."""
from __future__ import annotations

from typing import Optional

from ._structs import Status


class CriaError(Exception):
    """A model cannot be opened, or cannot do what was asked.

    status is the library's, None where it has none; name is the status's name, or a word that says what kind of error it
    is.
    """

    def __init__(self, message: str, name: str, status: Optional[Status] = None) -> None:
        super().__init__(message)
        self.name = name
        self.status = status


class SchemaError(CriaError):
    """A JSON schema that is not understood; offset is where, in its text, keyword what ("" where no keyword is)."""

    def __init__(self, message: str, status: Status, offset: int, keyword: str) -> None:
        super().__init__(message, status.name, status)
        self.offset = offset
        self.keyword = keyword


class BusyError(CriaError):
    """A stream of this model is open: read it to its end, or close it."""

    def __init__(self) -> None:
        super().__init__("a stream of this model is open; read it to its end, or close it", "BUSY")


class CancelledError(CriaError):
    """Model.cancel() ended it."""

    def __init__(self) -> None:
        super().__init__("cancelled", Status.CRIA_CANCELLED.name, Status.CRIA_CANCELLED)
