"""Kits: who gets what, what a site allows, and what nobody else can read."""

import json
import stat

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_cert

from clients.federation.errors import FederationFileError, KitError
from clients.federation.kit import Federation, NodeSettings, open_kit, read_federation
from clients.federation.provision import provision

PLAIN = {
    "name": "skin",
    "coordinator": {"host": "fed.example.org", "port": 8443, "also": ["10.0.0.7"]},
    "hospitals": [{"name": "north"}, {"name": "south", "organisation": "clinic"}],
}


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "kits"
    provision(Federation.model_validate(PLAIN), out.parent, out)
    return out


def certificate(kit, name="client"):
    return x509.load_pem_x509_certificate((kit / "startup" / f"{name}.crt").read_bytes())


def resources(kit):
    return json.loads((kit / "local" / "resources.json").read_text())


def test_everybody_gets_a_kit_signed_by_one_authority(kits):
    assert {path.name for path in kits.iterdir()} == {"server", "north", "south", "admin", "authority"}
    root = x509.load_pem_x509_certificate((kits / "north" / "startup" / "rootCA.pem").read_bytes())
    for kit, name, common in (
        ("server", "server", "fed.example.org"),
        ("north", "client", "north"),
        ("south", "client", "south"),
        ("admin", "client", "admin@skin.federation"),
    ):
        own = certificate(kits / kit, name)
        own.verify_directly_issued_by(root)
        [found] = own.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        assert found.value == common
        assert open_kit(kits / kit).facts.identity == common
    names = certificate(kits / "server", "server").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert "fed.example.org" in names.value.get_values_for_type(x509.DNSName)


def test_keys_and_what_is_kept_are_their_owners_alone(kits):
    for kit in ("server", "north", "south", "admin"):
        for folder in (kits / kit, kits / kit / "private", kits / kit / "startup"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for file in (kits / kit / "startup").iterdir():
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE((kits / "authority").stat().st_mode) == 0o700
    # The authority's key is in no kit, and no kit has another's.
    keys = {
        kit: next((kits / kit / "startup").glob("*.key")).read_bytes()
        for kit in ("server", "north", "south", "admin")
    }
    assert len(set(keys.values())) == 4
    secret = json.loads(next((kits / "authority").rglob("cert.json")).read_text())["root_pri_key"]
    for path in kits.rglob("*"):
        if path.is_file() and "authority" not in path.parts:
            assert secret not in path.read_text()


def test_a_site_runs_our_entry_points_and_nothing_else(kits):
    assert resources(kits / "north")["class_allow_list"] == [
        "clients.node.hospital.Hospital",
        "nvflare.collab.runtime.executor.CollabExecutor",
    ]
    assert resources(kits / "server")["class_allow_list"] == [
        "training.coordinator.Coordinator",
        "nvflare.collab.runtime.controller.CollabController",
    ]
    for kit in ("north", "server"):
        assert resources(kits / kit)["class_list_enforcement_mode"] == "enforce"
        rights = json.loads((kits / kit / "local" / "authorization.json").read_text())["permissions"]
        assert list(rights) == ["lead"]
        assert {rights["lead"][name] for name in ("byoc", "shell_commands", "operate", "clone_job")} == {
            "none"
        }


def test_no_log_leaves_and_all_stores_are_in_the_kit(kits):
    north, server = resources(kits / "north"), resources(kits / "server")
    assert north["allow_log_streaming"] is False
    paths = {part["path"] for part in north["components"] + server["components"]}
    assert not [path for path in paths if ".logging." in path]
    stores = [
        next(part for part in server["components"] if part["id"] == "job_manager")["args"]["uri_root"],
        server["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"],
    ]
    assert all(place.startswith(str(kits / "server" / "private")) for place in stores)
    assert "/tmp/nvflare" not in json.dumps(server)


def test_a_hospital_that_joins_later_gets_a_kit_and_the_others_keep_theirs(tmp_path):
    out = tmp_path / "kits"
    provision(Federation.model_validate(PLAIN), tmp_path, out)
    before = (out / "north" / "startup" / "client.key").read_bytes()
    more = {**PLAIN, "hospitals": [*PLAIN["hospitals"], {"name": "east"}]}
    made = provision(Federation.model_validate(more), tmp_path, out)
    assert [path.name for path in made] == ["east"]
    assert (out / "north" / "startup" / "client.key").read_bytes() == before
    assert open_kit(out / "north").federation.names == ("north", "south", "east")
    root = x509.load_pem_x509_certificate((out / "north" / "startup" / "rootCA.pem").read_bytes())
    certificate(out / "east").verify_directly_issued_by(root)
    moved = {**PLAIN, "coordinator": {"host": "elsewhere.example.org"}}
    with pytest.raises(KitError, match="was made with coordinator"):
        provision(Federation.model_validate(moved), tmp_path, out)


def test_a_given_authority_signs(tmp_path):
    key, public = generate_keys()
    own = generate_cert(Identity("House CA"), Identity("House CA"), key, public, valid_days=400, ca=True)
    (tmp_path / "ca.pem").write_bytes(serialize_cert(own))
    (tmp_path / "ca.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    federation = {**PLAIN, "authority": {"certificate": "ca.pem", "key": "ca.key"}}
    provision(Federation.model_validate(federation), tmp_path, tmp_path / "kits")
    certificate(tmp_path / "kits" / "north").verify_directly_issued_by(own)
    assert "ca.key" not in (tmp_path / "kits" / "north" / "federation.yaml").read_text()
    wrong = {**PLAIN, "authority": {"certificate": "ca.pem", "key": "ca.pem"}}
    with pytest.raises(FederationFileError, match="the key without a password"):
        provision(Federation.model_validate(wrong), tmp_path, tmp_path / "others")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hospitals": [{"name": "north"}, {"name": "north"}]}, "two hospitals are called north"),
        ({"hospitals": [{"name": "server"}]}, "may not be called server"),
        ({"hospitals": [{"name": "../etc"}]}, "should match pattern"),
        ({"coordinator": {"host": "north"}}, "a hospital is called north, as the coordinator's host"),
        ({"coordinator": {"host": "2001:db8::7"}}, "2001:db8::7 is no name and no IPv4 address"),
        ({"coordinator": {"host": "skin.example.org:8002"}}, "and the port under `port`"),
        ({"hospital": []}, "unknown key `hospital`"),
    ],
)
def test_what_is_wrong_with_a_federation_file_is_told(tmp_path, change, told):
    path = tmp_path / "federation.yaml"
    path.write_text(yaml.safe_dump({**PLAIN, **change}))
    with pytest.raises(FederationFileError, match=told):
        read_federation(path)


def test_a_kit_of_another_role_is_refused(kits, tmp_path):
    with pytest.raises(KitError, match=r"is the kit of north \(hospital\); needed is one of admin"):
        open_kit(kits / "north", "admin")
    with pytest.raises(KitError, match="is no kit"):
        open_kit(tmp_path)


def test_what_a_node_was_started_with_is_kept_for_its_jobs(kits):
    kit = open_kit(kits / "north")
    assert kit.settings() == NodeSettings()
    kit.keep_settings(NodeSettings(data="/data/manifest.csv"))
    assert open_kit(kits / "north").settings().data == "/data/manifest.csv"
