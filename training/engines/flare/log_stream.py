"""A text stream that writes to a file and logs each whole line: progress, for whoever follows the run."""

import io
import logging
from typing import TextIO


class LogStream(io.TextIOBase):
    """Writes to a file, and logs whole lines.

    Args:
        file: where all is written.
        logger: where lines are logged.
    """

    def __init__(self, file: TextIO, logger: logging.Logger) -> None:
        self._file = file
        self._logger = logger
        self._begun = ""

    def write(self, text: str) -> int:
        """Write, and log the lines that are complete by now."""
        self._file.write(text)
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line.strip():
                self._logger.info("%s", line.rstrip())
        return len(text)

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()
