"""`Watching`: how versions do in the field: figures and alarms."""

from registry.acting import Acting
from registry.alarms import telling
from registry.alarms.look import Look
from registry.records import Event


class Watching(Acting):
    """A catalogue whose alarms can be told and closed; each method is one transaction."""

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
