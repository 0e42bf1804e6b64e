"""Hospitals with a table of counts each, certificates, and a coordinator that does as it likes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import torch
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from clients.federation.certificates import BITS, DAYS, CertificateAuthority, certify
from clients.node.identity import KnownHospitals
from clients.store import ClientStore
from training.algorithms.client import Client
from training.errors import TrainingError
from training.messages import Answer, Broadcast, Failure, Update
from training.privacy.secagg import arithmetic
from training.privacy.secagg.arithmetic import FixedPointVector, Recovery, decode
from training.privacy.secagg.client import answer, withhold
from training.privacy.secagg.keys import Agreement, Identity, KeyPair, Signed, derive, seal, unseal
from training.privacy.secagg.messages import (
    KEYS,
    LAYOUT,
    MASKED,
    REQUESTS,
    SEALED,
    SEALED_BYTES,
    SELF_SHARES,
    SHARE,
    SIGNATURE,
    UNMASK,
    MaskedRequest,
    ShareRequest,
    UnmaskRequest,
    masks_about,
    read_json,
    read_layout,
    rows_tensor,
    session_about,
    tensor_bytes_of,
    topic_of,
)
from training.privacy.settings import SecureAggregationConfig

RUN = "skin-1"
THREE = ("ash", "birch", "cedar")


class Anybody:
    """Knows every hospital, as a node without its kit's list and without memory would."""

    def require(self, fingerprints: Mapping[str, str]) -> None:
        """Refuses nobody."""


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=BITS)


def bare_certificate(
    name: str, issuer: str, key: rsa.RSAPrivateKey, by: rsa.RSAPrivateKey
) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, issuer)]
    builder = (
        x509.CertificateBuilder().subject_name(names[0]).issuer_name(names[1]).public_key(key.public_key())
    )
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
    return builder.not_valid_after(now + timedelta(days=DAYS)).sign(by, hashes.SHA256())


@cache
def authority(name: str = "skin") -> CertificateAuthority:
    key = new_key()
    return CertificateAuthority(bare_certificate(name, name, key, key), key)


@cache
def key_of(name: str) -> rsa.RSAPrivateKey:
    return new_key()


def certified(name: str, key: rsa.RSAPrivateKey, by: CertificateAuthority | None = None) -> x509.Certificate:
    """A certificate as `dermfed-node provision` makes one."""
    by = by or authority()
    like = bare_certificate(name, "anybody", key, key)
    return certify(like, key.public_key(), by, DAYS)


def identity(name: str, known: Any, key: rsa.RSAPrivateKey | None = None, run: str = RUN) -> Identity:
    key = key or key_of(name)
    return Identity(name, run, certified(name, key), key, authority().certificate, known)


@dataclass
class Hospital:
    """A client of which the counts are made up, and all else is real.

    Attributes:
        name: its name.
        counts: what it would answer.
        folder: of its store.
        config: the job's.
        identity: its own; None as in one process.
        said: what its log says.
    """

    name: str
    counts: torch.Tensor
    folder: Path
    config: SecureAggregationConfig
    identity: Identity | None = None
    said: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        store = ClientStore(self.folder / self.name)
        return Client(self.name, 0, 1, None, store, None)  # type: ignore[arg-type]

    def answer(self, request: Broadcast) -> Answer:
        """As `training.jobs.client_app` answers: withheld, or a step of the sum."""
        try:
            if request.ask in REQUESTS:
                return answer(request, self.client, self.config, self.identity)
            asked = {} if request.options.get("subgroups") == [] else {"counts": self.counts}
            update = Update(*request.address, tensors=asked)
            return withhold(update, self.client, topic_of(request), self.identity)
        except TrainingError as error:
            return Failure(self.name, request.track, f"{error}")


def hospitals(
    folder: Path, names: Sequence[str] = THREE, *, signed: bool, fewest: int = 3
) -> dict[str, Hospital]:
    """Hospitals whose counts are all different, with identities or without."""
    made = {}
    for number, name in enumerate(names):
        drawn = torch.Generator().manual_seed(number)
        counts = torch.randint(0, 900, (2, 6), generator=drawn, dtype=torch.int32)
        config = SecureAggregationConfig(fewest=fewest, survivors=0.5)
        each = made[name] = Hospital(name, counts, folder, config)
        if signed:
            known = KnownHospitals(folder / f"{name}.json", tuple(names), each.said.append)
            each.identity = identity(name, known)
    return made


def asker(made: Mapping[str, Hospital]) -> Callable[[Sequence[Broadcast]], list[Answer]]:
    """How an honest half of the protocol reaches hospitals."""
    return lambda requests: [made[request.client].answer(request) for request in requests]


def evaluate(
    made: Mapping[str, Hospital],
    names: Sequence[str],
    split: str = "test",
    stage: str = "0-federate",
    ask: str = "test",
    **message: Any,
) -> list[Broadcast]:
    """The request for counts, to these hospitals."""
    options = {"split": split, "subgroups": ["light", "dark"]}
    return [Broadcast(name, stage, message.get("round", 0), ask, "global", {}, options) for name in names]


def updates_of(answers: Sequence[Answer]) -> list[Update]:
    """Answers of which none is a failure."""
    refused = [each.reason for each in answers if isinstance(each, Failure)]
    assert not refused, refused
    return [each for each in answers if isinstance(each, Update)]


def impersonate(
    victim: Hospital,
    request: Broadcast,
    others: Sequence[str],
    sign: Callable[[str, Mapping[str, Any]], Signed | None],
) -> torch.Tensor | str:
    """A coordinator that plays all others in a sum of one hospital.

    Args:
        victim: whose counts are wanted.
        request: for them.
        others: the names that it plays.
        sign: how it signs in such a name, if it can.

    Returns:
        The victim's counts; or why it refused.
    """
    from training.privacy.secagg.messages import CONFIRM, ConfirmRequest, keys_statement, survivors_statement

    (withheld,) = updates_of([victim.answer(request)])
    names = (victim.name, *others)
    common = {"of": request.ask, "threshold": len(names)}
    pairs = {name: (KeyPair.new(), KeyPair.new()) for name in others}
    rows = [tensor_bytes_of(withheld.tensors[KEYS])]
    rows += [mask.public + seal_.public for mask, seal_ in pairs.values()]
    asked = topic_of(request).asked
    own = withheld.tensors.get(SIGNATURE)
    signed = [None if own is None else Signed.model_validate(read_json(own))]
    signed += [
        sign(name, keys_statement(request, request.ask, asked, row))
        for name, row in zip(others, rows[1:], strict=True)
    ]
    session = session_about(request, request.ask, asked, names, b"".join(rows))

    def put(ask: str, options: Any, tensors: Mapping[str, torch.Tensor]) -> Answer:
        return victim.answer(replace(request, ask=ask, options=options.model_dump(), tensors=tensors))

    shared = put(
        SHARE, ShareRequest(**common, clients=names, signed=tuple(signed)), {KEYS: rows_tensor(rows, 64)}
    )
    if isinstance(shared, Failure):
        return shared.reason
    victims_mask, victims_seal = rows[0][:32], rows[0][32:]
    places = list(range(len(names)))
    self_shares: dict[int, bytes] = {}
    sealed = [bytes(SEALED_BYTES)]
    for place, (_, seal_pair) in enumerate(pairs.values(), start=1):
        key = Agreement(seal_pair.private).with_(victims_seal, session, "seal")
        there = session + (0).to_bytes(4, "big") + place.to_bytes(4, "big")
        back = session + place.to_bytes(4, "big") + (0).to_bytes(4, "big")
        shares = unseal(key, tensor_bytes_of(shared.tensors[SEALED][place]), there)
        self_shares[place] = shares[arithmetic.SHARE_BYTES :]
        sealed.append(seal(key, bytes(2 * arithmetic.SHARE_BYTES), back))
    layout = read_layout(withheld.tensors[LAYOUT])
    plan = MaskedRequest(**common, present=tuple(places), weight=1, total_weight=4, layout=tuple(layout))
    masked = put(MASKED, plan, {SEALED: rows_tensor(sealed, SEALED_BYTES)})
    if isinstance(masked, Failure):
        return masked.reason
    confirmed: tuple[tuple[int, Signed], ...] = ()
    if own is not None:
        agreed = put(CONFIRM, ConfirmRequest(**common, survivors=tuple(places)), {})
        if isinstance(agreed, Failure):
            return agreed.reason
        statement = survivors_statement(session, tuple(places))
        all_signed = [
            (0, Signed.model_validate(read_json(agreed.tensors[SIGNATURE]))),
            *((place, sign(name, statement)) for place, name in enumerate(others, start=1)),
        ]
        confirmed = tuple((place, each) for place, each in all_signed if each is not None)
    opened = put(UNMASK, UnmaskRequest(**common, survivors=tuple(places), confirmed=confirmed), {})
    if isinstance(opened, Failure):
        return opened.reason
    self_shares[0] = tensor_bytes_of(opened.tensors[SELF_SHARES][0])
    total = FixedPointVector.from_tensors(masked.tensors)
    self_key = Recovery.of(self_shares, victim.config.threshold(len(names))).secret(self_shares)
    total.subtract(total.mask(derive(self_key, session, "self mask")))
    for mask_pair, _ in pairs.values():  # the victim, whose place is first, has added each
        key = Agreement(mask_pair.private).with_(victims_mask, masks_about(session, plan), "pair mask")
        total.subtract(total.mask(key))
    return decode(total, layout, 4)["counts"]
