"""`Marking`: what is said of versions and aliases: stopped, withdrawn, tagged, noted; and their alarms.

Each method is one transaction.
"""

from collections.abc import Sequence

from registry.acting import Acting
from registry.alarms import telling
from registry.alarms.look import Look
from registry.gate_report import GateReport
from registry.gates import GateSet
from registry.records import Event
from registry.releases import canary, going_back, labels, promote
from registry.releases.gate_sets import approve_gates


class Marking(Acting):
    """A catalogue whose versions and aliases can be marked."""

    def approve(
        self,
        model: str,
        numbers: Sequence[int],
        *,
        to: str,
        reason: str | None = None,
        override_gates: bool = False,
        without: Sequence[str] = (),
    ) -> Event:
        """Approves exactly the release that this promotion would make, until the alias moves.

        With `override_gates`, approves promoting it although gates refuse, and nothing else.

        Raises:
            NotFound: there is no such model or version.
            ReleaseRefused: the versions do not make a release.
            NothingToApprove: the alias points to it already, or the same person has approved it.
            StoreError: a manifest is missing or was altered.
        """
        where = (self._engine, self._store, model, numbers, to, self._context(reason), without)
        return promote.approve(*where, over_gates=override_gates)

    def approve_gates(
        self,
        gates: GateSet,
        *,
        model: str | None = None,
        alias: str | None = None,
        reason: str | None = None,
    ) -> Event:
        """Approves putting exactly this gate set in force in place of exactly those that are asked there.

        Raises:
            NotFound: there is no such model.
            NothingToApprove: it is asked there already, or the same person has approved it.
        """
        return approve_gates(self._engine, gates, model, self._context(reason), alias)

    def rollback(
        self, model: str, *, alias: str, reason: str | None = None, expect: int | None = None
    ) -> Event:
        """Rolls the alias back to the release before the one it points to; gates are not asked.

        Releases that hold a withdrawn version are skipped. Of an alias that was stopped, that is the release
        that ran before. `expect` is the number of the release that the alias points to, 0 for none; by
        default the one that it points to when this is called.

        Raises:
            AliasMoved: the alias points to another release by then.
            NotFound: there is no such model or alias.
            NothingToRollBack: there is no release before it that may answer.
        """
        return going_back.roll_back(self._engine, model, alias, self._context(reason), expect)

    def end_canary(self, model: str, *, alias: str, reason: str) -> Event:
        """Ends the canary beside the alias: what the alias points to answers everybody again.

        Raises:
            NotFound: there is no such model, or no canary.
            ReleaseRefused: there is no reason.
        """
        return canary.end_canary(self._engine, model, alias, self._context(reason))

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

    def tell_alarms(self, model: str, seen: Look) -> tuple[Event, ...]:
        """Tells history of the alarms that a look has found and that it does not know.

        Raises:
            PersonRefused: an operator has to sign it.
        """
        return telling.tell_alarms(self._engine, model, seen.untold, self._context())

    def close_alarm(self, model: str, number: int, *, reason: str | None) -> Event:
        """Closes an alarm for good, and lets its promise be watched anew.

        Raises:
            NotFound: there is no such model or alarm.
            AlarmClosed: it was closed before.
            PersonRefused: an operator has to sign it.
            ReleaseRefused: there is no reason.
        """
        return telling.close_alarm(self._engine, model, number, self._context(reason))
