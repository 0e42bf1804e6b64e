"""A file that also says each line to a log: progress for those who follow the run, and at the coordinator."""

import io
import logging
from typing import TextIO


class Spoken(io.TextIOBase):
    """Writes to a file, and says whole lines.

    Args:
        file: where all is written.
        logger: where lines are said.
    """

    def __init__(self, file: TextIO, logger: logging.Logger) -> None:
        self._file = file
        self._logger = logger
        self._begun = ""

    def write(self, text: str) -> int:
        """Write, and say what lines are whole by now."""
        self._file.write(text)
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line.strip():
                self._logger.info("%s", line.rstrip())
        return len(text)

    def flush(self) -> None:
        """Let it be read."""
        self._file.flush()
