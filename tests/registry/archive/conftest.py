"""Two hospitals: one that exports a release, and one without a network that imports it."""

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from registry.registry import Registry
from registry.signing_keys import Signer

MODEL = "skin-lesion"
ALIKE = {"n": 50, "accuracy": 0.8, "answered": 1.0, "reported": 1.0, "reported_risk": 0.0}
EVERYBODY_ALIKE = {"by_subgroup": dict.fromkeys(("dark", "light"), ALIKE)}


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Registry]:
    """The registry of the hospital that exports, with a release of two versions in production."""
    url = f"sqlite:///{tmp_path / 'sender' / 'registry.db'}"
    with Registry.open(url, str(tmp_path / "sender" / "store"), actor="vendor") as opened:
        yield opened


@pytest.fixture
def pair(bundle, graph, dark):
    """A global bundle and one for dark skin, each with a model of its own."""
    return [bundle(None, EVERYBODY_ALIKE, graph=graph(name="1")), bundle(dark, EVERYBODY_ALIKE, seed=2)]


@pytest.fixture
def released(sender, pair):
    """The sender, with the pair in production."""
    sender.add(pair)
    sender.promote(MODEL, [1, 2], to="production", reason="first release")
    return sender


@pytest.fixture
def file(released, tmp_path) -> Path:
    """The release as a file."""
    path = tmp_path / "release.dermfed"
    released.export_release(MODEL, "production", path)
    return path


@pytest.fixture
def signer() -> Signer:
    """A signer with a key of its own."""
    return Signer(ec.generate_private_key(ec.SECP256R1()))


def entries(path: Path) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """What a zip holds, as somebody would see it who knows nothing of ours."""
    with zipfile.ZipFile(path) as archive:
        return [(one, archive.read(one)) for one in archive.infolist()]


@pytest.fixture
def repack(file) -> Callable[..., Path]:
    """Writes the file anew, after `change` had its way with the list of its entries."""

    def write(change: Callable[[list[tuple[zipfile.ZipInfo, bytes]]], object], comment: bytes = b"") -> Path:
        found = entries(file)
        change(found)
        with zipfile.ZipFile(file, "w") as archive:
            for info, content in found:
                archive.writestr(info, content)
            archive.comment = comment
        return file

    return write


@pytest.fixture
def reindex(repack) -> Callable[..., Path]:
    """Writes the file anew, after `change` had its way with what `release.json` says."""

    def write(change: Callable[[dict], object]) -> Path:
        def edit(found: list[tuple[zipfile.ZipInfo, bytes]]) -> None:
            record = json.loads(found[0][1])
            change(record)
            text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            found[0] = (found[0][0], text.encode())

        return repack(edit)

    return write
