"""`Marking`: what is said of versions and aliases beside promoting them: stopped, withdrawn, tagged, noted.

Each method is one transaction.
"""

from collections.abc import Sequence

from registry.acting import Acting
from registry.gate_report import GateReport
from registry.records import Event
from registry.releases import going_back, labels, promote


class Marking(Acting):
    """A catalogue whose versions and aliases can be marked."""

    def stop(self, model: str, *, alias: str, reason: str) -> Event | None:
        """Stops the alias: it points to nothing until a rollback or a promotion; None where it does already.

        Raises:
            NotFound: there is no such model or alias.
            ReleaseRefused: there is no reason.
        """
        return going_back.stop(self._engine, model, alias, self._context(reason))

    def withdraw(self, model: str, numbers: Sequence[int], *, reason: str) -> going_back.Withdrawn | None:
        """Withdraws versions for good: they are never promoted or served again, and every alias moves away.

        Returns None where all of them were withdrawn before.

        Raises:
            NotFound: there is no such model or version.
            ReleaseRefused: there is no reason.
        """
        return going_back.withdraw(self._engine, model, numbers, self._context(reason))

    def judge_again(self, model: str, *, alias: str) -> GateReport:
        """What today's gates say of the release that runs, as if it were promoted over the one before.

        Raises:
            NotFound: there is no such model or alias.
            GateSetInvalid: a gate cannot be asked.
            StoreError: a manifest is missing or was altered.
        """
        return promote.judge_again(self._engine, self._store, model, alias)

    def tag(self, model: str, number: int, tags: Sequence[str]) -> Event | None:
        """Gives a version tags; returns None where it has all of them.

        Raises:
            NotFound: there is no such model or version.
            InvalidName: a tag cannot be one, or none is named.
        """
        return labels.tag_version(self._engine, model, number, tags, self._context())

    def untag(self, model: str, number: int, tags: Sequence[str]) -> Event:
        """Takes tags away from a version.

        Raises:
            NotFound: there is no such model or version, or it has no such tag.
            InvalidName: none is named.
        """
        return labels.untag_version(self._engine, model, number, tags, self._context())

    def note(self, model: str, number: int, text: str) -> Event:
        """Writes a note on a version, which history keeps.

        Raises:
            NotFound: there is no such model or version.
            InvalidName: the note is empty or too long.
        """
        return labels.note_version(self._engine, model, number, text, self._context())
