"""At the door: greet every site, hear what data it has, agree on classes and subgroups, and let it in."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from training.data import SERVER
from training.engines.nvflare.attendance import Attendance
from training.engines.nvflare.background import in_background
from training.engines.nvflare.lines import Line, LineError, SiteRefusedError
from training.errors import CheckpointError, DataError, JobError, QuorumError, TrainingError
from training.files import write_text
from training.greeting import Greeting, differing, greet, refuse_strangers
from training.job import Job
from training.roster import Introduction, Roster, agree

REFUSED = "refused"  # the key under which a site says why it will not take part
MINUTE = 60.0
GLANCE = 0.2  # seconds between looks at who went away
Told = TypeVar("Told")


class AwayError(TrainingError):
    """A site that is needed before the first round is away; the run begins when it is there."""


@dataclass(frozen=True)
class Welcome:
    """Who was let in.

    Attributes:
        roster: who takes part in the run, here or away.
        lines: to those that are here and ready.
        missing: those of the roster that are not, and why.
        unreached: those of the missing that said nothing; another session may let them in.
    """

    roster: Roster
    lines: Mapping[str, Line]
    missing: Mapping[str, str]
    unreached: tuple[str, ...] = ()


@dataclass(frozen=True)
class Door:
    """The door of one session.

    Attributes:
        job: the job.
        session: see `training.wire.Stamp`.
        lines: to the sites that are connected.
        attendance: who of them is there.
        own: how the coordinator introduces its own pictures, where it has any.
        say: takes one line for whoever follows the run.
    """

    job: Job
    session: str
    lines: Mapping[str, Line]
    attendance: Attendance
    own: Introduction | None
    say: Callable[[str], None]

    def begin(self, expected: Sequence[str], path: Path) -> Welcome:
        """Let everybody in before the first round; who takes part stays in the file `path`.

        A site that may not take part (other versions, other classes, no data) is left out and named where the
        job's minimum allows it.

        Args:
            expected: the sites of the federation that the job is for, in client order.
            path: of the roster.

        Raises:
            AwayError: a site that is expected is away.
            QuorumError: too few sites may take part.
            DataError: sites disagree on what a class means.
        """
        heard = self.hear(expected)
        refuse_if_away(heard)
        refused = {name: f"{why}" for name, why in heard.items() if isinstance(why, SiteRefusedError)}
        guests = [told for told in heard.values() if isinstance(told, Introduction)]
        while True:
            self._require_quorum(expected, guests, refused)
            roster = agree(self.job, self.in_order(guests), refused)
            joined = self.join(roster, [told.client for told in guests])
            refuse_if_away(joined)
            strange = {name: f"{why}" for name, why in joined.items() if isinstance(why, SiteRefusedError)}
            if not strange:
                break
            refused |= strange
            guests = [told for told in guests if told.client not in strange]
        for name, why in refused.items():
            self.say(f"{name} is left out: {why}")
        write_text(path, roster.model_dump_json(indent=2) + "\n")
        return Welcome(roster, {name: self.lines[name] for name in joined}, {})

    def _require_quorum(
        self, expected: Sequence[str], guests: Sequence[Introduction], refused: Mapping[str, str]
    ) -> None:
        """Refuse to begin without sites that the job cannot do without.

        Raises:
            QuorumError: naming those that may not take part, and why.
        """
        needed = self.job.engine.min_clients
        if not refused or (needed is not None and len(guests) >= max(needed, 1)):
            return
        reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
        raise QuorumError(
            f"{len(guests)} of {len(expected)} sites may take part, "
            f"{len(expected) if needed is None else needed} are needed (engine.min_clients). {reasons}. "
            "Mend what they report, or lower engine.min_clients"
        )

    def come_back(self, path: Path) -> Welcome:
        """Let those in that are there, after the run has begun; others come when they come.

        Raises:
            CheckpointError: the roster cannot be read.
        """
        roster = read_roster(path)
        sites = [name for name in roster.clients if name != SERVER]
        heard = self.hear(sites)
        missing = {name: f"{why}" for name, why in heard.items() if not isinstance(why, Introduction)}
        for told in heard.values():
            if isinstance(told, Introduction):
                try:
                    roster.refuse_other_data(told)
                except DataError as error:
                    missing[told.client] = f"{error}"
        there = [name for name in sites if name not in missing]
        joined = self.join(roster, there)
        for name, why in joined.items():
            if isinstance(why, LineError | SiteRefusedError):
                missing[name] = f"{why}"
        unreached = [name for name, why in {**heard, **joined}.items() if isinstance(why, LineError)]
        for name, reason in missing.items():
            self.say(f"{name} is missing: {reason}")
        ready = {name: self.lines[name] for name in there if name not in missing}
        return Welcome(roster, ready, missing, tuple(unreached))

    def hear(self, names: Sequence[str]) -> dict[str, Introduction | LineError | SiteRefusedError]:
        """What each site tells of its data, or why it does not."""
        return self.of_each(names, self._hear_one)

    def join(self, roster: Roster, names: Sequence[str]) -> dict[str, str | LineError | SiteRefusedError]:
        """Tell each site what all agreed on; what it says, or why it will not have it."""
        text = roster.model_dump_json()

        def join(name: str) -> str:
            told = self.lines[name].join(text, self.job.engine.network.first_deadline)
            refuse_if_told(told)
            return told

        return self.of_each(names, join)

    def in_order(self, guests: Sequence[Introduction]) -> list[Introduction]:
        """Hospitals, then the coordinator's own client, then those that train nothing.

        Raises:
            JobError: the job gives the coordinator pictures, and it has none.
        """
        own: list[Introduction] = []
        if self.job.data.server is not None:
            if self.own is None:
                raise JobError(
                    "the job gives the coordinator pictures (`data.server`), but it was started without "
                    "--data; start it with its manifest, or remove `data.server`"
                )
            own = [self.own]
        seen = [guest for guest in guests if not guest.unseen]
        return [*seen, *own, *(guest for guest in guests if guest.unseen)]

    def of_each(
        self, names: Sequence[str], ask: Callable[[str], Told]
    ) -> dict[str, Told | LineError | SiteRefusedError]:
        """What asking each site at once brings; a site that goes away meanwhile is not waited for."""
        found: dict[str, Told | LineError | SiteRefusedError] = {}
        asked: dict[str, Future[Told]] = {}
        since: dict[str, float] = {}
        for name in names:
            if name in self.lines:
                asked[name], since[name] = self._ask(ask, name)
            else:
                found[name] = LineError("it is not connected")
        while asked:
            wait(asked.values(), timeout=GLANCE, return_when=FIRST_COMPLETED)
            away = self.attendance.away
            for name, future in list(asked.items()):
                if future.done():
                    try:
                        found[name] = future.result()
                    except (LineError, SiteRefusedError) as error:
                        found[name] = error
                    del asked[name]
                elif name in away:
                    found[name] = LineError(away[name])
                    del asked[name]
                elif self.attendance.lost_on_the_way(name, since[name], 0):
                    asked[name], since[name] = self._ask(ask, name)
        return {name: found[name] for name in names}

    def _ask(self, ask: Callable[[str], Told], name: str) -> tuple["Future[Told]", float]:
        return in_background(partial(ask, name), f"door-{name}"), self.attendance.now()

    def _hear_one(self, name: str) -> Introduction:
        line = self.lines[name]
        ours = greet(self.job.digest, self.session)
        told = line.greet(ours.model_dump_json(), MINUTE)
        refuse_if_told(told)
        try:
            theirs = Greeting.model_validate_json(told)
            refuse_strangers(name, theirs, ours)
            others = differing(theirs, ours)
            if others:
                self.say(f"{name} runs other versions, so last digits of weights may differ: {others}")
            told = line.introduce(self.job.engine.network.first_deadline)
            refuse_if_told(told)
            introduction = Introduction.model_validate_json(told)
        except (ValidationError, TrainingError) as error:
            if isinstance(error, LineError | SiteRefusedError):
                raise
            raise SiteRefusedError(f"{error}") from error
        if introduction.client != name:
            raise SiteRefusedError(f"{name} introduces itself as {introduction.client}")
        return introduction


def read_roster(path: Path) -> Roster:
    """The roster of a run that has begun.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        return Roster.model_validate_json(path.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}); without it nobody knows who takes part: restore it, or "
            "start the run anew"
        ) from error


def refuse_if_away(heard: Mapping[str, object]) -> None:
    """Refuse to begin without a site that is away.

    Raises:
        AwayError: naming all that are.
    """
    away = {name: why for name, why in heard.items() if isinstance(why, LineError)}
    if away:
        reasons = "; ".join(f"{name}: {why}" for name, why in away.items())
        raise AwayError(f"the run begins when every site is there. {reasons}")


def refuse_if_told(told: str) -> None:
    """Raise a site's refusal.

    Raises:
        SiteRefusedError: with what the site says.
    """
    try:
        content = json.loads(told)
    except ValueError as error:
        raise SiteRefusedError(f"it answered what is no JSON: {error}") from error
    if isinstance(content, dict) and REFUSED in content:
        raise SiteRefusedError(f"{content[REFUSED]}")
