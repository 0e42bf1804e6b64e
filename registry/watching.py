"""`Watching`: how versions do in the field: figures, alarms, and what alarms may do by themselves."""

from collections.abc import Sequence

from registry.acting import Acting
from registry.alarms import acting, telling
from registry.alarms.database import name_database
from registry.alarms.look import Look
from registry.outcomes.kept_alarms import FoundAlarm
from registry.outcomes.store import OutcomeStore
from registry.records import Event


class Watching(Acting):
    """A catalogue whose alarms can be told, closed and acted on; each method is one transaction."""

    def name_outcomes(self, model: str, store: OutcomeStore, *, reason: str | None = None) -> Event | None:
        """Names the database of outcomes that speaks for a model; None where it is this one already.

        Raises:
            NotFound: there is no such model.
            PersonRefused: an operator has to sign it.
            ReleaseRefused: another one was named, and there is no reason.
        """
        return name_database(self._engine, model, store.identity(), self._context(reason))

    def tell_alarms(self, model: str, seen: Look) -> tuple[Event, ...]:
        """Tells history of the alarms that a look has found and that it does not know.

        Raises:
            PersonRefused: an operator has to sign it.
        """
        untold: Sequence[FoundAlarm] = seen.untold
        return telling.tell_alarms(self._engine, model, untold, seen.database, self._context())

    def close_alarm(self, model: str, number: int, *, reason: str | None) -> Event:
        """Closes an alarm for good, and lets its promise be watched anew.

        Raises:
            NotFound: there is no such model or alarm.
            AlarmClosed: it was closed before.
            PersonRefused: an operator has to sign it.
            ReleaseRefused: there is no reason.
        """
        return telling.close_alarm(self._engine, model, number, self._context(reason))

    def allow_withdraw(
        self, model: str, alias: str, *, allowed: bool, reason: str | None = None
    ) -> Event | None:
        """Lets alarms move an alias back by themselves, or no longer; None where it is so already.

        Raises:
            NotFound: there is no such model.
            InvalidName: the alias cannot be one.
            PersonRefused: an operator has to sign it.
        """
        return acting.allow(self._engine, model, alias, self._context(reason), allowed=allowed)

    def act_on_alarms(self, model: str) -> acting.Acted:
        """Moves every alias that alarms may move and that an open one concerns; gates are not asked.

        Raises:
            NotFound: there is no such model.
            PersonRefused: an operator has to sign it.
        """
        return acting.act(self._engine, model, self._context())
