"""The coordinator's half of a secure sum: passes shares on, adds masked values, and unmasks the sum.

Nothing here ever holds the tensors of one client: what arrives is uniform, and a client gives shares of a
self mask or of a mask key, never of both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from torch import Tensor

from training.errors import MessageError, QuorumError
from training.messages import Answer, Broadcast, Failure, Message, Tensors, Update, check_update
from training.privacy.secagg.arithmetic import (
    SHARE_BYTES,
    FixedPointVector,
    Layout,
    Recovery,
    decode,
    power_of_two,
)
from training.privacy.secagg.keys import Agreement, KeyPair, Signed, derive
from training.privacy.secagg.messages import (
    CONFIRM,
    KEY_SHARES,
    KEYS,
    MASKED,
    SEALED,
    SEALED_BYTES,
    SELF_SHARES,
    SHARE,
    SIGNATURE,
    UNMASK,
    ConfirmRequest,
    MaskedRequest,
    ShareRequest,
    UnmaskRequest,
    bytes_of_rows,
    masks_about,
    read_json,
    rows_tensor,
    session_about,
)
from training.randomness import KEY_BYTES

Ask = Callable[[Sequence[Broadcast]], Sequence[Answer]]


@dataclass
class SecureSum:
    """One sum in the making.

    Attributes:
        about: stage, round, request and model of what is summed.
        clients: U_1, in order.
        public: their mask and seal keys, 64 bytes each.
        threshold: t.
        failures: those that left.
        signed: the clients' signatures of their keys; None of one without identity.
        asked: see `training.privacy.secagg.messages.Topic`.
        whole: whether the sum is of all that begin it, or not at all.
    """

    ask: Ask
    about: Message
    clients: Sequence[str]
    public: Sequence[bytes]
    threshold: int
    failures: list[Failure] = field(default_factory=list)
    signed: Sequence[Signed | None] = ()
    asked: str = ""
    whole: bool = False

    @cached_property
    def session(self) -> bytes:
        """What names the session."""
        return session_about(
            self.about, self.about.ask, self.asked, tuple(self.clients), b"".join(self.public)
        )

    @property
    def common(self) -> dict[str, Any]:
        """The options of every request of the sum."""
        return {"of": self.about.ask, "threshold": self.threshold}

    def run(self, layout: Layout, weights: Mapping[str, float]) -> Mapping[str, Tensor]:
        """Rounds 1 to 4; afterwards `clients` are those whose values are in the sum.

        Raises:
            QuorumError: when fewer than the threshold are left; nothing is unmasked then.
        """
        # A sum that is above 1 by rounding alone is 1: there is room for it.
        total_weight = power_of_two(sum(abs(weights[name]) for name in self.clients) * (1 - 1e-9))
        sealed = self.shares()
        plan = MaskedRequest(
            **self.common,
            present=tuple(sorted(sealed)),
            weight=1,
            total_weight=total_weight,
            layout=tuple(layout),
        )
        total, arrived = self.masked(sealed, plan, weights)
        self.unmask(total, plan, arrived, self.confirmed(arrived))
        self.clients = [self.clients[place] for place in arrived]
        return decode(total, layout, total_weight)

    def shares(self) -> dict[int, list[bytes]]:
        """U_2: by place, the rows that each sealed for all, in order."""
        request = ShareRequest(**self.common, clients=tuple(self.clients), signed=tuple(self.signed))
        options = request.model_dump()
        tensors = {KEYS: rows_tensor(list(self.public), 2 * KEY_BYTES)}
        places = range(len(self.clients))
        answers = self.put(SHARE, dict.fromkeys(places, (tensors, options)))
        sealed = {}
        for place, update in answers.items():
            rows = self.tensor(SHARE, update, SEALED, (len(self.clients), SEALED_BYTES))
            if rows is not None:
                sealed[place] = bytes_of_rows(rows)
        return self.enough(SHARE, sealed)

    def masked(
        self, sealed: Mapping[int, Sequence[bytes]], plan: MaskedRequest, weights: Mapping[str, float]
    ) -> tuple[FixedPointVector, list[int]]:
        """Σ y over U_3, and U_3."""
        requests, options = {}, plan.model_dump()
        for place in plan.present:
            rows = [sealed[sender][place] for sender in plan.present]
            own: dict[str, Any] = {"weight": weights[self.clients[place]]}
            requests[place] = ({SEALED: rows_tensor(rows, SEALED_BYTES)}, options | own)
        total, arrived = FixedPointVector.zeros(plan.layout), {}
        sizes = {"narrow": (total.narrow.size,), "wide": (total.wide.size,)}
        for place, update in self.put(MASKED, requests).items():
            found = {name: self.tensor(MASKED, update, name, size) for name, size in sizes.items()}
            vectors = {name: tensor for name, tensor in found.items() if tensor is not None}
            if len(vectors) == len(sizes):
                total.add(FixedPointVector.from_tensors(vectors))
                arrived[place] = True
        return total, list(self.enough(MASKED, arrived))

    def confirmed(self, arrived: Sequence[int]) -> tuple[tuple[int, Signed], ...]:
        """Signatures of U_4 on U_3; none where no client has an identity."""
        signers = [place for place in arrived if self.signed and self.signed[place] is not None]
        if not signers:
            return ()
        options = ConfirmRequest(**self.common, survivors=tuple(arrived)).model_dump()
        found: dict[int, Signed] = {}
        for place, update in self.put(CONFIRM, {place: ({}, options) for place in signers}).items():
            try:
                found[place] = Signed.model_validate(read_json(update.tensors[SIGNATURE]))
            except (KeyError, ValueError) as error:
                reason = f"sent no signature of who is in the sum: {error}"
                self.failures.append(Failure(update.client, update.track, reason))
        return tuple(self.enough(CONFIRM, found).items())

    def unmask(
        self,
        total: FixedPointVector,
        plan: MaskedRequest,
        arrived: Sequence[int],
        confirmed: tuple[tuple[int, Signed], ...],
    ) -> None:
        """Take the self masks of U_3, and the pair masks between U_3 and who is gone, off the total."""
        request = UnmaskRequest(**self.common, survivors=tuple(arrived), confirmed=confirmed)
        options = request.model_dump()
        there = set(arrived)
        gone = [place for place in plan.present if place not in there]
        answers = self.put(UNMASK, {place: ({}, options) for place in arrived})
        given: dict[int, list[dict[int, bytes]]] = {}
        for place, update in answers.items():
            found = [self.held(update, name, of) for name, of in ((SELF_SHARES, arrived), (KEY_SHARES, gone))]
            whole = [shares for shares in found if shares is not None]
            if len(whole) == len(found):
                given[place] = whole
        self.enough(UNMASK, given, all_of_them=False)
        recovery = Recovery.of(given, self.threshold)
        for place in arrived:
            self_key = self.secret(recovery, {holder: each[0][place] for holder, each in given.items()})
            total.subtract(total.mask(derive(self_key, self.session, "self mask")))
        pairs_are_for = masks_about(self.session, plan)
        for place in gone:
            mask_key = self.secret(recovery, {holder: each[1][place] for holder, each in given.items()})
            if KeyPair.of(mask_key).public != self.public[place][:KEY_BYTES]:
                raise QuorumError(
                    f"the mask key of {self.clients[place]}, which left, does not come together from the "
                    "others' shares; nothing is unmasked. Continue with --resume"
                )
            agreement = Agreement(mask_key)
            for other in arrived:
                key = agreement.with_(self.public[other][:KEY_BYTES], pairs_are_for, "pair mask")
                pair = total.mask(key)
                total.subtract(pair) if other < place else total.add(pair)

    def held(self, update: Update, name: str, senders: Sequence[int]) -> dict[int, bytes] | None:
        """Shares that a client gave, by whose they are; None, and noted, where they are none."""
        rows = self.tensor(UNMASK, update, name, (len(senders), SHARE_BYTES))
        return None if rows is None else dict(zip(senders, bytes_of_rows(rows), strict=True))

    def secret(self, recovery: Recovery, shares: Mapping[int, bytes]) -> bytes:
        """A client's secret from what the others gave, by their places.

        Raises:
            QuorumError: when shares contradict each other; naming whose, where one does.
        """
        try:
            return recovery.secret(shares)
        except MessageError as error:
            wrong = recovery.wrong(shares)
            whose = "" if wrong is None else f": that of {self.clients[wrong]} fits none of the others"
            raise QuorumError(f"{self.where}: {error}{whose}. Continue with --resume") from error

    def put(self, ask: str, requests: Mapping[int, tuple[Tensors, Mapping[str, Any]]]) -> dict[int, Update]:
        """Ask some clients, by their places; those that do not answer are noted."""
        about = self.about
        broadcasts = [
            Broadcast(self.clients[place], about.stage, about.round, ask, about.track, tensors, options)
            for place, (tensors, options) in requests.items()
        ]
        found: dict[int, Update] = {}
        for place, broadcast, answer in zip(requests, broadcasts, self.ask(broadcasts), strict=True):
            if isinstance(answer, Failure):
                self.failures.append(
                    replace(answer, reason=f"left the secure sum at `{ask}`: {answer.reason}")
                )
                continue
            try:
                check_update(answer, broadcast)
            except MessageError as error:
                self.failures.append(Failure(broadcast.client, about.track, str(error)))
                continue
            found[place] = answer
        return found

    def tensor(self, ask: str, update: Update, name: str, shape: tuple[int, ...]) -> Tensor | None:
        """A tensor of an answer; None, and noted, where it is not what was asked for."""
        tensor = update.tensors.get(name)
        if tensor is not None and tuple(tensor.shape) == shape and not tensor.is_floating_point():
            return tensor
        found = None if tensor is None else (tensor.dtype, tuple(tensor.shape))
        self.failures.append(
            Failure(update.client, update.track, f"sent {name} of `{ask}` as {found}; expected {shape}")
        )
        return None

    def enough(self, ask: str, found: Mapping[int, Any], *, all_of_them: bool = True) -> dict[int, Any]:
        """Those that are there, in order.

        Args:
            ask: what they answered.
            found: the answers; None for one that is none.
            all_of_them: whether all must be there where the sum is of all or of none.

        Raises:
            QuorumError: when they are fewer than the threshold, or not all of whom all are needed.
        """
        there = {place: value for place, value in sorted(found.items()) if value is not None}
        if self.whole and all_of_them and len(there) < len(self.clients):
            reasons = "; ".join(f"{failure.client}: {failure.reason}" for failure in self.failures)
            raise QuorumError(
                f"{self.where} is over all clients or not at all, or the difference to a later one would "
                f"tell of those that left. {reasons}. Nothing was unmasked. Bring them back and continue "
                "with --resume"
            )
        require_enough(self.where, len(there), self.threshold, self.failures, f" after `{ask}`")
        return there

    @property
    def where(self) -> str:
        """Which sum this is, for messages."""
        about = self.about
        return f"secure sum of `{about.ask}`, round {about.round} of {about.stage} ({about.track})"


def require_enough(
    where: str, left: int, threshold: int, failures: Sequence[Failure], when: str = ""
) -> None:
    """Refuse a sum over too few.

    Raises:
        QuorumError: naming who left, and what to do.
    """
    if left < threshold:
        reasons = "; ".join(f"{failure.client}: {failure.reason}" for failure in failures)
        raise QuorumError(
            f"{where}: {left} clients are there{when}, {threshold} are needed so that the sum hides each of "
            f'them (docs/privacy.md, "Sums under masks"). {reasons + ". " if reasons else ""}Nothing was '
            "unmasked. Mend what they report and continue with --resume"
        )
