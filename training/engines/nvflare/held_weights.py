"""What sites hold of the weights that they were sent last: it is named by digest, and does not travel again.

Whoever evaluates a round's model and trains on it in the next is asked twice about the same weights. A
site that can, holds those of its last question, and says so in its answer. What of the next question it
holds is then named by digest, tensor by tensor. The site checks every digest; one that has lost its weights,
or holds others, says so and gets all of them. So a coordinator that is wrong about a site loses time and
nothing else.
"""

import threading
from collections.abc import Collection, Mapping

from training.messages.message import Tensors, tensor_bytes

LEAST = 1 << 16  # bytes of a question's tensors below which nothing is held or named


class HeldWeights:
    """Which tensors each site holds, as it has said itself in this session.

    Args:
        sites: that can hold weights, by their handshake.

    Attributes:
        spared: bytes of tensors that did not travel.
    """

    def __init__(self, sites: Collection[str] = ()) -> None:
        self._sites = frozenset(sites)
        self._digests: dict[str, Mapping[str, str]] = {}
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        self.spared = 0

    def can_hold(self, site: str) -> bool:
        """Whether a site takes names for tensors."""
        return site in self._sites

    def named(self, site: str, digests: Mapping[str, str]) -> dict[str, str]:
        """Those of a question's tensors that a site holds."""
        with self._lock:
            held = self._digests.get(site, {})
        return {name: digest for name, digest in digests.items() if held.get(name) == digest}

    def note(self, site: str, number: int, digests: Mapping[str, str], *, holds: bool) -> None:
        """Note what a site says after a question: whether it holds the tensors of that, or none.

        Args:
            site: its name.
            number: of the question; what is said later of an earlier one is left out of account.
            digests: of all the question's tensors.
            holds: what it says.
        """
        with self._lock:
            if number < self._numbers.get(site, 0):
                return
            self._numbers[site] = number
            self._digests[site] = digests if holds else {}

    def forget(self, site: str) -> None:
        """A site was not reached, or has lost what it held: the next question carries everything."""
        with self._lock:
            self._digests.pop(site, None)

    def spare(self, tensors: Tensors, named: Collection[str]) -> None:
        """Count tensors that were named and did not travel."""
        with self._lock:
            self.spared += tensor_bytes({name: tensors[name] for name in named})


def worth_holding(tensors: Tensors) -> bool:
    """Whether a question's tensors are enough to be held."""
    return tensor_bytes(tensors) >= LEAST
