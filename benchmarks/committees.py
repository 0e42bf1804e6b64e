"""Who taught whom in a run with the exchange `peers`, read from its log, beside what chance would give."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.messages.message import GLOBAL


@dataclass(frozen=True)
class Committee:
    """The most similar others of one client in one round.

    Attributes:
        round: in which the client learned.
        client: who learned.
        peers: who taught.
        refused: who was as similar, and was left out by the policy.
        others: all among whom the server could choose: whoever had taken part before, the client aside.
        newest: those of the others whose upload is of the round before.
    """

    round: int
    client: str
    peers: tuple[str, ...]
    refused: tuple[str, ...]
    others: frozenset[str]
    newest: frozenset[str]

    @property
    def top(self) -> tuple[str, ...]:
        """The first T of the others, whatever the policy said of them."""
        return self.peers + self.refused

    def share_of(self, members: Container[str]) -> float:
        """The share of the others that is in `members`: of peers drawn by lot so many are, on average."""
        return sum(other in members for other in self.others) / len(self.others)

    def chance_of(self, other: str) -> float:
        """The probability that `other` is among the first T, were these drawn by lot."""
        return len(self.top) / len(self.others) if other in self.others else 0.0


def read_committees(lines: Iterable[Mapping[str, Any]], stage: str) -> list[Committee]:
    """The committees of one stage, from the lines of `metrics.jsonl`."""
    found: list[Committee] = []
    known: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()
    for line in lines:
        if line["stage"] != stage:
            continue
        told = line["models"][GLOBAL]
        found += [
            Committee(
                round=line["round"],
                client=client,
                peers=tuple(note["peers"]),
                refused=tuple(note.get("refused", ())),
                others=known - {client},
                newest=last - {client},
            )
            for client, note in told.get("exchange", {}).items()
            if "peers" in note
        ]
        last = frozenset(told["answered"])
        known |= last
    return found


@dataclass(frozen=True)
class Origin:
    """Where peers came from: how many there were, how many of a community, and how many by lot on average."""

    peers: int
    within: int
    by_lot: float

    @property
    def text(self) -> str:
        """`found (by lot)`, in percent."""
        if not self.peers:
            return "none"
        return f"{100 * self.within / self.peers:.0f} ({100 * self.by_lot / self.peers:.0f})"


def newest_peers(committees: Iterable[Committee]) -> Origin:
    """Of all peers, those whose upload was of the round before."""
    found = list(committees)
    return Origin(
        peers=sum(len(committee.peers) for committee in found),
        within=sum(peer in committee.newest for committee in found for peer in committee.peers),
        by_lot=sum(len(committee.peers) * committee.share_of(committee.newest) for committee in found),
    )


def origin_of_peers(committees: Iterable[Committee], community: Sequence[str]) -> Origin:
    """Of the peers that taught clients of `community`, those that belong to it."""
    own = [committee for committee in committees if committee.client in community]
    return Origin(
        peers=sum(len(committee.peers) for committee in own),
        within=sum(peer in community for committee in own for peer in committee.peers),
        by_lot=sum(len(committee.peers) * committee.share_of(community) for committee in own),
    )
