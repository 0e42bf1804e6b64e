"""The cohort of an evaluation: which of the clients that could judge a model are asked to.

A client's stratum is the rarest of the subgroups of which it holds pictures, so that those of few clients are
not left to chance. Of the M_h clients of stratum h

    m_h = min(M_h, max(4, ⌈f M_h⌉))

are drawn without replacement, f being the stage's `evaluation_participation`, and each stands for M_h / m_h
(Cochran 1977, chapter 5). The draw follows from the job's seed and from nothing that the cohort of `fit`
follows from. A draw that misses a subgroup is made again, `DRAWS` times at most.

Under masks the coordinator learns one sum and can weigh nobody: there is one stratum. The cohort is drawn
once for a stage, since sums over other clients in every round, of models that hardly differ, would tell
single clients by subtraction; and so would the sum over all clients, which a later stage may ask for, if
fewer than `fewest` were left out. Then everybody is asked.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from training.federation.server.plan import Plan, Track
from training.seeds import generator

FEWEST = 4  # of a stratum: two or three hardly tell how unlike its clients are
DRAWS = 100


@dataclass(frozen=True)
class Stratum:
    """Clients of which some are asked for all.

    Attributes:
        clients: all of it, in client order.
        asked: those that are asked, in client order.
    """

    clients: tuple[str, ...]
    asked: tuple[str, ...]


@dataclass(frozen=True)
class EvaluationCohort:
    """Who judges a model in a round.

    Attributes:
        strata: all clients that could, each in one.
    """

    strata: tuple[Stratum, ...]

    @property
    def asked(self) -> tuple[str, ...]:
        """Everybody who is asked, stratum by stratum."""
        return tuple(client for stratum in self.strata for client in stratum.asked)

    @property
    def of(self) -> int:
        """How many clients could judge it."""
        return sum(len(stratum.clients) for stratum in self.strata)


def evaluation_cohort(plan: Plan, track: Track, round_: int) -> EvaluationCohort:
    """Who judges a model after a round: everybody, or as many as the plan says."""
    share, masks = plan.evaluation_participation, plan.masked_counts
    if share >= 1 or not track.judges:
        return EvaluationCohort((Stratum(track.judges, track.judges),))
    if masks is None:
        strata = strata_of(track.judges, track.pictures)
        sizes = [cohort_size(len(stratum), share, FEWEST) for stratum in strata]
        turn: tuple[int, ...] = (round_,)
    else:
        strata, turn = [track.judges], ()
        sizes = [cohort_size(len(track.judges), share, masks.fewest)]
        if len(track.judges) - sizes[0] < masks.fewest:
            sizes = [len(track.judges)]
    random = generator(plan.seed, plan.stage, track.name, *turn, "evaluation")
    return drawn_in(strata, sizes, track.pictures, random)


def expected_size(plan: Plan, track: Track) -> int:
    """How many clients judge a model in a round."""
    return len(evaluation_cohort(plan, track, 1).asked)


def cohort_size(clients: int, share: float, fewest: int) -> int:
    """How many of so many clients are asked."""
    return min(clients, max(fewest, ceil(share * clients - 1e-9)))


def strata_of(clients: Sequence[str], holds: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """The clients by the rarest of the subgroups that each holds; those that hold none last."""
    holders: dict[str, int] = {}
    for client in clients:
        for subgroup in holds.get(client, ()):
            holders[subgroup] = holders.get(subgroup, 0) + 1
    rarity = {
        name: place for place, name in enumerate(sorted(holders, key=lambda name: (holders[name], name)))
    }
    strata: dict[int, list[str]] = {}
    for client in clients:
        rarest = min((rarity[name] for name in holds.get(client, ())), default=len(rarity))
        strata.setdefault(rarest, []).append(client)
    return [tuple(strata[place]) for place in sorted(strata)]


def drawn_in(
    strata: Sequence[tuple[str, ...]],
    sizes: Sequence[int],
    holds: Mapping[str, Iterable[str]],
    random: np.random.Generator,
) -> EvaluationCohort:
    """A cohort of so many of each stratum that holds all subgroups; of several draws the fullest."""
    wanted = {name for stratum in strata for client in stratum for name in holds.get(client, ())}
    best: EvaluationCohort | None = None
    most = -1
    for _ in range(DRAWS):
        cohort = EvaluationCohort(
            tuple(drawn(stratum, size, random) for stratum, size in zip(strata, sizes, strict=True))
        )
        held = len({name for client in cohort.asked for name in holds.get(client, ())})
        if held > most:
            best, most = cohort, held
        if most == len(wanted):
            break
    assert best is not None, "the first draw is better than none"
    return best


def drawn(stratum: tuple[str, ...], size: int, random: np.random.Generator) -> Stratum:
    """So many of a stratum, in client order."""
    if size == len(stratum):
        return Stratum(stratum, stratum)
    places = np.sort(random.choice(len(stratum), size=size, replace=False))
    return Stratum(stratum, tuple(stratum[place] for place in places))
