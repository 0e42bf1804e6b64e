"""The census, asked once: what a site holds stays the same during a run, which goes on without a site."""

from pathlib import Path
from urllib.parse import quote

from training.body import read_body, write_body
from training.census import CENSUS
from training.errors import MessageError
from training.files import write_bytes
from training.messages import Broadcast, Update, reply


class Counted:
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
            return reply(question, tensors=read_body(path.read_bytes()))
        except MessageError:
            return None  # damaged: asked again

    def keep(self, question: Broadcast, answer: object) -> None:
        """Keep an answer, if it is one to the census."""
        if question.ask == CENSUS and isinstance(answer, Update) and self.known(question) is None:
            write_bytes(self._path(question), write_body(answer.tensors))

    def _path(self, question: Broadcast) -> Path:
        return self._folder / f"{quote(question.client, safe='')}.safetensors"
