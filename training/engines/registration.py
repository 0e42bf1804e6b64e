"""Client registration: compare versions with each site, collect client properties, agree on a roster."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from training.data.dataset import SERVER
from training.engines.calls import Channel, ChannelError, LivenessTracker, SiteRefusedError, raise_refusal
from training.engines.network_round import in_background
from training.engines.roster import (
    ClientProperties,
    Handshake,
    Roster,
    agree,
    differing,
    refuse_incompatible,
    shake_hands,
)
from training.errors import CheckpointError, DataError, JobError, QuorumError, TrainingError
from training.files import write_text
from training.jobs.disclosure_report import decide_masks
from training.jobs.job import Job
from training.jobs.stages.export import weights_digest
from training.rounds.server.ask import quorum_of

MINUTE = 60.0
NAMED = 8  # sites in one line
POLL_SECONDS = 0.2  # seconds between looks at who went offline
Result = TypeVar("Result")


class OfflineError(TrainingError):
    """A site that is needed before the first round is offline; the run begins when it is there."""


@dataclass(frozen=True)
class Participants:
    """Which sites take part in this session, and which of the roster are missing.

    Attributes:
        roster: who takes part in the run, connected or offline.
        channels: to those that are connected and ready.
        missing: those of the roster that are not, and why.
        unreached: those of the missing that did not answer; another session may register them.
    """

    roster: Roster
    channels: Mapping[str, Channel]
    missing: Mapping[str, str]
    unreached: tuple[str, ...] = ()


@dataclass(frozen=True)
class Registration:
    """Registers the sites of a federation at the start of a session.

    Attributes:
        job: the job.
        session: see `training.engines.wire.Stamp`.
        channels: to the sites that are connected.
        liveness: which of them are reachable.
        own: the properties of the coordinator's own pictures, where it has any.
        log: takes one log line for the run's followers.
        federation: all hospitals that the coordinator knows of.
    """

    job: Job
    session: str
    channels: Mapping[str, Channel]
    liveness: LivenessTracker
    own: ClientProperties | None
    log: Callable[[str], None]
    federation: Sequence[str] = ()

    def begin(self, expected: Sequence[str], path: Path) -> Participants:
        """Register every site before the first round; the roster is kept in the file `path`.

        A site that may not take part (other versions, other classes, no data) is left out and named where the
        job's minimum allows it; one that is offline, where the job's `engine.network.quorum` does. Neither
        joins the run later.

        Args:
            expected: the sites of the federation that the job is for, in client order.
            path: of the roster.

        Raises:
            OfflineError: a site that is expected is offline, and the run does not begin without it.
            QuorumError: too few sites may take part.
            DataError: sites disagree on what a class means.
        """
        self.log(f"{len(expected)} sites read their pictures: {some(expected)}")
        answers = self.request_properties(expected)
        offline = self.offline_sites(expected, answers, {})
        refused = {name: f"{why}" for name, why in answers.items() if isinstance(why, SiteRefusedError)}
        registered = [each for each in answers.values() if isinstance(each, ClientProperties)]
        while True:
            self._require_quorum(expected, registered, refused)
            left_out = {**refused, **offline}
            roster = self.with_masks(agree(self.job, self.in_client_order(registered), left_out))
            self.log(f"{len(registered)} sites have read them, and get ready")
            joined = self.join(roster, [each.client for each in registered])
            newly_offline = self.offline_sites(expected, joined, offline)
            offline |= newly_offline
            newly_refused = {
                name: f"{why}" for name, why in joined.items() if isinstance(why, SiteRefusedError)
            }
            if not newly_refused and not newly_offline:
                break
            refused |= newly_refused
            gone = {*newly_refused, *newly_offline}
            registered = [each for each in registered if each.client not in gone]
        for name, why in left_out.items():
            self.log(f"{name} is left out: {why}")
        write_text(path, roster.model_dump_json(indent=2) + "\n")
        return Participants(roster, {name: self.channels[name] for name in joined}, {})

    def offline_sites(
        self, expected: Sequence[str], answers: Mapping[str, object], before: Mapping[str, str]
    ) -> dict[str, str]:
        """The sites that are offline in addition to those `before`, and why, if the run begins without them.

        Raises:
            OfflineError: naming all that are offline, where too few are left.
        """
        offline = {
            name: f"it was offline when the run began: {why}"
            for name, why in answers.items()
            if isinstance(why, ChannelError)
        }
        there = len(expected) - len(before) - len(offline)
        if offline and there < quorum_of(self.job.engine.network.quorum, len(expected)):
            refuse_if_offline(answers)
        return offline

    def _require_quorum(
        self, expected: Sequence[str], registered: Sequence[ClientProperties], refused: Mapping[str, str]
    ) -> None:
        """Refuse to begin without sites that the job cannot do without.

        Raises:
            QuorumError: naming those that may not take part, and why.
        """
        needed = self.job.engine.min_clients
        if not refused or (needed is not None and len(registered) >= max(needed, 1)):
            return
        reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
        raise QuorumError(
            f"{len(registered)} of {len(expected)} sites may take part, "
            f"{len(expected) if needed is None else needed} are needed (engine.min_clients). {reasons}. "
            "Mend what they report, or lower engine.min_clients"
        )

    def resume(self, path: Path) -> Participants:
        """Register the sites that are reachable again, after the run has begun; others join when they return.

        Args:
            path: of the roster.

        Raises:
            CheckpointError: the roster cannot be read.
        """
        roster = self.with_masks(read_roster(path))
        sites = [name for name in roster.clients if name != SERVER]
        self.log(f"the run goes on; {len(sites)} sites read their pictures: {some(sites)}")
        answers = self.request_properties(sites)
        missing = {name: f"{why}" for name, why in answers.items() if not isinstance(why, ClientProperties)}
        changed = []
        for each in answers.values():
            if isinstance(each, ClientProperties):
                try:
                    roster.refuse_other_data(each)
                except DataError as error:
                    missing[each.client] = f"{error}"
                    changed.append(each.client)
        there = [name for name in sites if name not in missing]
        # Those with other data refuse the roster themselves: so their own console says why they are left out.
        joined = self.join(roster, [*there, *changed])
        for name, why in joined.items():
            if name not in changed and isinstance(why, ChannelError | SiteRefusedError):
                missing[name] = f"{why}"
        unreached = [name for name, why in {**answers, **joined}.items() if isinstance(why, ChannelError)]
        for name, reason in missing.items():
            self.log(f"{name} is missing: {reason}")
        ready = {name: self.channels[name] for name in there if name not in missing}
        return Participants(roster, ready, missing, tuple(unreached))

    def with_masks(self, roster: Roster) -> Roster:
        """The roster, saying whether counts are expected under masks."""
        job = decide_masks(self.job, {*self.federation, *roster.everybody})
        return roster.model_copy(update={"masked_counts": job.privacy.masked_counts is not None})

    def request_properties(
        self, names: Sequence[str]
    ) -> dict[str, ClientProperties | ChannelError | SiteRefusedError]:
        """Each site's client properties, or why it gives none."""
        return self.ask_each(names, self._request_properties)

    def join(self, roster: Roster, names: Sequence[str]) -> dict[str, str | ChannelError | SiteRefusedError]:
        """Send the roster to each site; its confirmation, or why it refuses."""
        roster_json = roster.model_dump_json()

        def join(name: str) -> str:
            text = self.channels[name].join(roster_json, self.job.engine.network.deadline)
            raise_refusal(text)
            return text

        return self.ask_each(names, join)

    def in_client_order(self, registered: Sequence[ClientProperties]) -> list[ClientProperties]:
        """The clients in the order in which sums are taken.

        Hospitals, then the coordinator's own client, then those that train nothing.

        Raises:
            JobError: the job gives the coordinator pictures, and it has none.
        """
        own: list[ClientProperties] = []
        if self.job.data.server is not None:
            if self.own is None:
                raise JobError(
                    "the job gives the coordinator pictures (`data.server`), but it was started without "
                    "--data; start it with its manifest, or remove `data.server`"
                )
            own = [self.own]
        hospitals = [client for client in registered if not client.unseen]
        return [*hospitals, *own, *(client for client in registered if client.unseen)]

    def ask_each(
        self, names: Sequence[str], ask: Callable[[str], Result]
    ) -> dict[str, Result | ChannelError | SiteRefusedError]:
        """The answers of all sites, asked in parallel, without those that go offline meanwhile."""
        found: dict[str, Result | ChannelError | SiteRefusedError] = {}
        asked: dict[str, Future[Result]] = {}
        since: dict[str, float] = {}
        for name in names:
            if name in self.channels:
                asked[name], since[name] = self._ask(ask, name)
            else:
                found[name] = ChannelError("it is not connected")
        while asked:
            wait(asked.values(), timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            offline = self.liveness.offline
            for name, future in list(asked.items()):
                if future.done():
                    try:
                        found[name] = future.result()
                    except (ChannelError, SiteRefusedError) as error:
                        found[name] = error
                    del asked[name]
                elif name in offline:
                    found[name] = ChannelError(offline[name])
                    del asked[name]
                elif self.liveness.lost_in_transit(name, since[name], 0):
                    asked[name], since[name] = self._ask(ask, name)
        return {name: found[name] for name in names}

    def _ask(self, ask: Callable[[str], Result], name: str) -> tuple["Future[Result]", float]:
        return in_background(partial(ask, name), f"door-{name}"), self.liveness.now()

    def _request_properties(self, name: str) -> ClientProperties:
        channel = self.channels[name]
        ours = shake_hands(self.job.digest, self.session, weights_digest(self.job.model))
        text = channel.handshake(ours.model_dump_json(), MINUTE)
        raise_refusal(text)
        try:
            theirs = Handshake.model_validate_json(text)
            refuse_incompatible(name, theirs, ours)
            others = differing(theirs, ours)
            if others:
                self.log(f"{name} runs other versions, so last digits of weights may differ: {others}")
            text = channel.register(self.job.engine.network.deadline)
            raise_refusal(text)
            properties = ClientProperties.model_validate_json(text)
        except (ValidationError, TrainingError) as error:
            if isinstance(error, ChannelError | SiteRefusedError):
                raise
            raise SiteRefusedError(f"{error}") from error
        if properties.client != name:
            raise SiteRefusedError(f"{name} registers as {properties.client}")
        return properties


def some(names: Sequence[str]) -> str:
    """The first of many names, and how many others there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def read_roster(path: Path) -> Roster:
    """Read the roster of a run that has begun.

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


def refuse_if_offline(answers: Mapping[str, object]) -> None:
    """Refuse to begin without a site that is offline.

    Raises:
        OfflineError: naming all that are.
    """
    offline = {name: why for name, why in answers.items() if isinstance(why, ChannelError)}
    if offline:
        reasons = "; ".join(f"{name}: {why}" for name, why in offline.items())
        raise OfflineError(f"the run begins when every site is there. {reasons}")
