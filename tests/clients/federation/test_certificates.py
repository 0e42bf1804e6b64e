"""Keys that stay in their hospital, and certificates for another year: shown by handshakes."""

import json
import shutil
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import Result
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from typer.testing import CliRunner

from clients.federation.certificates import certify, key_of, pem
from clients.federation.errors import FederationFileError, KitError
from clients.federation.kit import Federation, open_kit
from clients.federation.provision import open_authority, provision, renew
from clients.node.check import check_certificate, judge
from clients.node.cli import app

PLAIN = {
    "name": "skin",
    "coordinator": {"host": "localhost"},
    "hospitals": [{"name": "north"}, {"name": "south", "request": "asked/south.csr"}],
}


def run(*arguments) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    assert run("request", "south", "--out", folder / "asked").exit_code == 0
    provision(Federation.model_validate(PLAIN), folder, folder / "kits")
    return folder


@pytest.fixture
def made(original, tmp_path):
    """A federation of which south made its own key."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return Federation.model_validate(PLAIN)


def load(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def shake_hands(server, client, roots):
    """A TLS handshake with certificates on both sides, in memory.

    Args:
        server, client: each side's certificate and key.
        roots: what the server trusts, and what the client does.
    """
    contexts = []
    for protocol, (certificate, key), root in zip(
        (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT), (server, client), roots, strict=True
    ):
        context = ssl.SSLContext(protocol)
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(root)
        context.verify_mode = ssl.CERT_REQUIRED
        contexts.append(context)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        contexts[1].wrap_bio(back, there, server_hostname="localhost"),
        contexts[0].wrap_bio(there, back, server_side=True),
    ]
    done = set()
    for _ in range(10):
        for place, side in enumerate(sides):
            try:
                side.do_handshake()
                done.add(place)
            except ssl.SSLWantReadError:
                continue
    assert done == {0, 1}
    return sides[1].getpeercert()


def pair(kit):
    opened = open_kit(kit)
    return opened.certificate, opened.key


def test_a_key_that_a_hospital_made_is_nowhere_else_and_its_kit_works_with_it(made, tmp_path):
    kits, asked = tmp_path / "kits", tmp_path / "asked"
    secret = (asked / "client.key").read_bytes()
    assert not (kits / "south" / "startup" / "client.key").exists()
    assert not [path for path in kits.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert "request" not in (kits / "north" / "federation.yaml").read_text()
    found = judge("certificate", check_certificate, open_kit(kits / "south"))
    assert not found.fit
    assert "put the one that `dermfed-node request` made" in found.text
    (tmp_path / "x.csv").write_text("image\n")
    ended = run("start", "--kit", kits / "south", "--data", tmp_path / "x.csv")
    assert isinstance(ended.exception, KitError)

    (kits / "south" / "startup" / "client.key").write_bytes(
        (kits / "north" / "startup" / "client.key").read_bytes()
    )
    assert "is not the key that" in judge("certificate", check_certificate, open_kit(kits / "south")).text
    (kits / "south" / "startup" / "client.key").write_bytes(secret)
    assert judge("certificate", check_certificate, open_kit(kits / "south")).fit
    root = kits / "south" / "startup" / "rootCA.pem"
    told = shake_hands(pair(kits / "server"), pair(kits / "south"), [root, root])
    assert ("commonName", "south") in [entry for [*entries] in told["subject"] for entry in entries]


def test_where_kits_are_made_nobodys_key_but_the_authoritys_is_kept(made, tmp_path):
    [state] = (tmp_path / "kits" / "authority").rglob("cert.json")
    assert set(json.loads(state.read_text())) == {"root_cert", "root_pri_key"}


def test_a_request_of_another_is_refused(tmp_path):
    run("request", "north", "--out", tmp_path / "asked")
    (tmp_path / "asked" / "north.csr").rename(tmp_path / "asked" / "south.csr")
    federation = Federation.model_validate(PLAIN)
    with pytest.raises(FederationFileError, match="is a request of north, with a good signature"):
        provision(federation, tmp_path, tmp_path / "kits")
    assert not (tmp_path / "kits" / "server").exists()
    (tmp_path / "asked" / "south.csr").write_text("no request")
    with pytest.raises(FederationFileError, match="is no request"):
        provision(federation, tmp_path, tmp_path / "kits")


def test_a_second_request_does_not_overwrite_a_key(tmp_path):
    assert run("request", "north", "--out", tmp_path).exit_code == 0
    assert isinstance(run("request", "north", "--out", tmp_path).exception, KitError)
    assert isinstance(run("request", "../etc", "--out", tmp_path / "x").exception, KitError)


def test_another_year_with_the_same_keys_one_side_after_the_other(made, tmp_path):
    """The kits end soon; renewed ones and old ones understand each other until then."""
    kits = tmp_path / "kits"
    (kits / "south" / "startup" / "client.key").write_bytes((tmp_path / "asked" / "client.key").read_bytes())
    authority = open_authority(made, tmp_path, kits)
    for name in ("server", "north", "south"):
        path = open_kit(kits / name).certificate
        path.write_bytes(pem(certify(load(path), key_of(load(path)), authority, 20)))
    text = judge("certificate", check_certificate, open_kit(kits / "north")).text
    assert "20 days left" in text or "19 days" in text
    assert "ask for a renewal" in text
    old = tmp_path / "old"
    for name in ("server", "north", "south"):
        (old / name).mkdir(parents=True)
        for path in (kits / name / "startup").iterdir():
            (old / name / path.name).write_bytes(path.read_bytes())

    assert run("renew", write(tmp_path), "--out", kits).exit_code == 0
    end = datetime.now(UTC) + timedelta(days=350)
    for name in ("server", "north", "south", "admin"):
        kit = open_kit(kits / name)
        assert load(kit.certificate).not_valid_after_utc > end
        assert load(kit.path / "startup" / "rootCA.pem").not_valid_after_utc > end
        assert judge("certificate", check_certificate, kit).fit
        assert {path.name for path in (kits / "renewed" / name).iterdir()} == {
            kit.certificate.name,
            "rootCA.pem",
        }
    for server, hospital in (("new", "old"), ("old", "new"), ("new", "new")):
        places = [kits / "server" / "startup" if server == "new" else old / "server"]
        places.append(kits / "south" / "startup" if hospital == "new" else old / "south")
        shake_hands(
            (places[0] / "server.crt", places[0] / "server.key"),
            (places[1] / "client.crt", places[1] / "client.key"),
            [place / "rootCA.pem" for place in places],
        )


def test_after_a_renewal_further_hospitals_join(made, tmp_path):
    kits = tmp_path / "kits"
    renew(made, tmp_path, kits)
    more = Federation.model_validate({**PLAIN, "hospitals": [*PLAIN["hospitals"], {"name": "east"}]})
    assert [path.name for path in provision(more, tmp_path, kits)] == ["east"]
    root = kits / "north" / "startup" / "rootCA.pem"
    shake_hands(pair(kits / "server"), pair(kits / "east"), [root, root])
    (kits / "north" / "kit.json").unlink()
    with pytest.raises(KitError, match="no kit of north"):
        renew(made, tmp_path, kits)


def test_what_a_given_authority_signs_does_not_outlive_it(made, tmp_path):
    authority = open_authority(made, tmp_path, tmp_path / "kits")
    (tmp_path / "ca.key").write_bytes(
        authority.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    short = certify(authority.certificate, key_of(authority.certificate), authority, 40)
    (tmp_path / "ca.pem").write_bytes(pem(short))
    given = made.model_copy(
        update={
            "authority": Federation.model_validate(
                {**PLAIN, "authority": {"certificate": "ca.pem", "key": "ca.key"}}
            ).authority
        }
    )
    renew(given, tmp_path, tmp_path / "kits")
    kit = open_kit(tmp_path / "kits" / "north")
    assert load(kit.certificate).not_valid_after_utc == short.not_valid_after_utc
    assert load(kit.path / "startup" / "rootCA.pem") == short


def write(folder):
    import yaml

    (folder / "federation.yaml").write_text(yaml.safe_dump(PLAIN))
    return folder / "federation.yaml"
