"""Cache of the sites' answers to the census, on disk, so that a resumed run needs no site for it."""

import json
from pathlib import Path
from urllib.parse import quote

from training.engines.nvflare.payload import read_payload, write_payload
from training.errors import MessageError
from training.files import write_bytes, write_text
from training.messages.message import Broadcast, Update, reply
from training.rounds.census import CENSUS

NUMBERS = ".json"  # beside the counts of pictures: how many are not used


class CensusCache:
    """The sites' answers to the census, on disk.

    Args:
        folder: made when the first is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def known(self, question: Broadcast) -> Update | None:
        """What the site answered in an earlier session; None for any other question."""
        path = self._path(question)
        if question.ask != CENSUS or not path.exists():
            return None
        try:
            tensors = read_payload(path.read_bytes())
            told = json.loads(path.with_suffix(NUMBERS).read_text())
        except (MessageError, OSError, ValueError):
            return None  # damaged: asked again
        return reply(question, tensors=tensors, scalars=told)

    def keep(self, question: Broadcast, answer: object) -> None:
        """Keep an answer, if it is one to the census."""
        if question.ask == CENSUS and isinstance(answer, Update) and self.known(question) is None:
            path = self._path(question)
            write_text(path.with_suffix(NUMBERS), json.dumps(dict(answer.scalars)))
            write_bytes(path, write_payload(answer.tensors))

    def _path(self, question: Broadcast) -> Path:
        return self._folder / f"{quote(question.client, safe='')}.safetensors"
