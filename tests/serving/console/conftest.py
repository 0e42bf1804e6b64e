"""A registry that knows people, and the service over it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="signing needs the extra sign")

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from registry.gates import GateSet
from registry.gates.approval import ApprovalsGate
from registry.gates.threshold import WorstMalignantSensitivityGate
from registry.registry import Registry
from registry.signing.keys import KeySignatory
from tests.serving.conftest import DARK, MODEL, Places, Service, draw_bundle, running

LONG = "People with dark skin who were photographed in the clinic of the eastern district, types V and VI"
HASHES = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}
CURVES = {"olga": ec.SECP256R1(), "anna": ec.SECP384R1(), "ben": ec.SECP521R1(), "eve": ec.SECP256R1()}
ROLES = {"olga": ["operator", "uploader"], "anna": ["approver"], "ben": ["operator"]}


def figures(**found: int) -> dict[str, Any]:
    """Test figures of 100 malignant and 100 other pictures of each subgroup, so many of the former found."""
    rows = {
        name: {
            "n": 200,
            "n_malignant": 100,
            "n_other": 100,
            "accuracy": (many + 80) / 200,
            "malignant_sensitivity": many / 100,
            "malignant_specificity": 0.8,
        }
        for name, many in found.items()
    }
    return {"by_subgroup": rows}


@dataclass(frozen=True)
class Somebody:
    """A person with a private key in PKCS 8, and a browser."""

    name: str
    key: ec.EllipticCurvePrivateKey
    folder: Path

    @property
    def file(self) -> Path:
        """The private key's file."""
        return self.folder / f"{self.name}.key"

    @property
    def signatory(self) -> KeySignatory:
        """Who signs with a file, as commands do."""
        return KeySignatory.read(self.file, None)

    def write(self) -> Path:
        """Writes both files; gives the public one."""
        self.file.write_bytes(self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        public = self.folder / f"{self.name}.pub"
        public.write_bytes(
            self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        return public


@dataclass(frozen=True)
class Desk:
    """The service, the registry behind it, and people before it."""

    registry: Registry
    service: Service
    people: Callable[[str], Somebody]

    def vouch(self, *numbers: int, alias: str = "production") -> None:
        """Has Anna approve that these versions are promoted although gates refuse, as the command does."""
        anna = self.registry.signed_by(self.people("anna").signatory)
        anna.approve(MODEL, numbers, to=alias, override_gates=True)

    @property
    def olga(self) -> Registry:
        """The registry as its operator uses it."""
        return self.registry.signed_by(self.people("olga").signatory)


@pytest.fixture
def people(tmp_path: Path) -> Callable[[str], Somebody]:
    """People by name, each with a key of another curve."""
    made: dict[str, Somebody] = {}

    def of(name: str) -> Somebody:
        if name not in made:
            made[name] = Somebody(name, ec.generate_private_key(CURVES[name]), tmp_path)
            made[name].write()
        return made[name]

    return of


def know(registry: Registry, people: Callable[[str], Somebody], *names: str) -> None:
    """Registers people, Olga first."""
    for name in names:
        vouching = registry.signed_by(people("olga").signatory) if registry.people() else registry
        vouching.add_person(name, people(name).file.with_suffix(".pub"), roles=ROLES[name])


@pytest.fixture
def desk(places: Places, people: Callable[[str], Somebody]) -> Iterator[Desk]:
    """Versions 1 (global, good), 2 (dark, bad), 3 (dark, good); an approval is asked for; nothing runs."""
    with desk_over(places, people) as opened:
        yield opened


@contextmanager
def desk_over(places: Places, people: Callable[[str], Somebody]) -> Iterator[Desk]:
    """The same, over these places."""
    with places.open() as registry:
        registry.add(
            [
                draw_bundle(metrics=figures(light=90, dark=85)),
                draw_bundle(DARK, seed=1, metrics=figures(dark=60)),
                draw_bundle(DARK, seed=2, metrics=figures(dark=95)),
            ]
        )
        know(registry, people, "olga", "anna", "ben")
        gates = GateSet(gates=(WorstMalignantSensitivityGate(limit=0.8), ApprovalsGate(people=1)))
        registry.signed_by(people("olga").signatory).set_gates(gates, reason="the board")
        with running(places.open) as service:
            desk = Desk(registry, service, people)
            desk.vouch(1, 2)
            desk.vouch(1, 3)
            yield desk
