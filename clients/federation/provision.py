"""Provisioning: from a federation file to a kit for the server, each hospital and the admin.

Certificates are made by FLARE's own provisioner, from the federation's authority or one made here; its key
stays in `authority/`, next to the kits and in none of them; no other private key is there. A hospital that
made its own key gets a kit without one. Run again with a longer list of hospitals, those that have a kit keep
it.
"""

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from logging.handlers import MemoryHandler
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from nvflare.lighter.constants import CtxKey
from nvflare.lighter.entity import Project
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder
from nvflare.lighter.provisioner import Provisioner

from clients.federation.certificates import DAYS, CertificateAuthority, certify, key_of, pem, read_request
from clients.federation.errors import FederationFileError, KitError
from clients.federation.kit import ADMIN, PRIVATE, PRIVATE_FILE, RENEWED, Federation, KitFacts, open_kit
from clients.federation.site_policy import AUTHORIZATION, hospital_resources, log_settings, server_resources
from training.data.dataset import SERVER
from training.files import write_bytes, write_text

FORMAT = 3  # of FLARE's project files
SCHEME = "grpc"
MESSAGES = 10_000  # of the provisioner that are kept
# Their scripts start FLARE in the background, in ways of their own; `dermfed-node start` does it in one.
SCRIPTS = ("start.sh", "sub_start.sh", "stop_fl.sh", "fl_admin.sh", "system_info.ipynb", "readme.txt")


def provision(federation: Federation, folder: Path, out: Path) -> list[Path]:
    """Make the kits that are not there yet; returns their folders.

    Args:
        federation: who is in.
        folder: from where the authority's files are named.
        out: where kits go; made readable by its owner alone.

    Raises:
        FederationFileError: the authority's files cannot be used.
        KitError: a kit is there that belongs to another federation, or cannot be made.
    """
    out.mkdir(parents=True, exist_ok=True)
    out.chmod(PRIVATE)
    facts = parties(federation)
    refuse_foreign_kits(federation, out, facts)
    keys = own_keys(federation, folder)
    with startup_kits(federation, folder, out) as made:
        new = []
        for each in facts:
            kit = out / each.name
            if not kit.exists():
                finish_kit(made / each.identity, each)
                if each.name in keys:
                    authority = open_authority(federation, folder, out)
                    certify_own(made / each.identity / "startup", keys[each.name], authority)
                shutil.move(made / each.identity, kit)
                new.append(kit)
        text = yaml.safe_dump(public_part(federation), sort_keys=False)
        for each in facts:
            write_text(out / each.name / "federation.yaml", text)
    for each in facts:
        write_site_files(out / each.name, each)
    return new


def parties(federation: Federation) -> list[KitFacts]:
    """The kit facts of every party that gets a kit."""
    coordinator = federation.coordinator
    return [
        KitFacts(
            role="server", name=SERVER, identity=coordinator.host, organisation=coordinator.organisation
        ),
        *(
            KitFacts(role="hospital", name=each.name, identity=each.name, organisation=each.organisation)
            for each in federation.hospitals
        ),
        KitFacts(
            role="admin",
            name=ADMIN,
            identity=f"{ADMIN}@{federation.name}.federation",
            organisation=coordinator.organisation,
        ),
    ]


def public_part(federation: Federation) -> dict[str, Any]:
    """The federation file as it stands in every kit, without the authority's paths and the requests."""
    plain = federation.model_dump(mode="json", exclude={"authority"})
    for hospital in plain["hospitals"]:
        hospital.pop("request")
    return plain


def refuse_foreign_kits(federation: Federation, out: Path, facts: list[KitFacts]) -> None:
    """Refuse kits of another federation, or a coordinator that moved: all kits name its address.

    Raises:
        KitError: naming what differs.
    """
    for each in facts:
        path = out / each.name / "federation.yaml"
        if not (out / each.name).exists():
            continue
        if not path.exists():
            raise KitError(f"{out / each.name} is there and is no kit; choose another --out")
        there = yaml.safe_load(path.read_text())
        for key in ("name", "coordinator"):
            if there.get(key) != public_part(federation)[key]:
                raise KitError(
                    f"{out / each.name} was made with {key} {there.get(key)!r}, the federation file says "
                    f"{public_part(federation)[key]!r}; choose another --out and hand out all kits anew"
                )


def state_file(federation: Federation, out: Path) -> Path:
    """The path where FLARE keeps the authority that it made."""
    return out / "authority" / federation.name / "state" / "cert.json"


def forget_keys(state: Path) -> None:
    """Delete all private keys but the authority's own from FLARE's state, which would keep them."""
    if not state.exists():
        return
    content = json.loads(state.read_text())
    own = {name: value for name, value in content.items() if isinstance(value, str)}
    if own:
        write_text(state, json.dumps(own))
    else:
        state.unlink()


def open_authority(federation: Federation, folder: Path, out: Path) -> CertificateAuthority:
    """The federation's certificate authority, given in its file or made here.

    Raises:
        FederationFileError: a given one cannot be read.
        KitError: none was made here yet.
    """
    certificate, key = read_authority(federation, folder)
    if certificate is None:
        try:
            state = json.loads(state_file(federation, out).read_text())
            certificate = state["root_cert"].encode()
            key = serialization.load_pem_private_key(state["root_pri_key"].encode(), password=None)
        except (OSError, ValueError, KeyError) as error:
            raise KitError(f"{out} holds no authority ({error}); name the folder of `provision`") from error
    return CertificateAuthority(x509.load_pem_x509_certificate(certificate), key)


def own_keys(federation: Federation, folder: Path) -> dict[str, RSAPublicKey]:
    """The public keys of hospitals that made their own, by name.

    Raises:
        FederationFileError: a request cannot be used.
    """
    return {
        each.name: read_request(folder / each.request, each.name)
        for each in federation.hospitals
        if each.request is not None
    }


def certify_own(startup: Path, key: RSAPublicKey, authority: CertificateAuthority) -> None:
    """Put a certificate for the hospital's own key in place of the key and certificate that FLARE made."""
    path = startup / "client.crt"
    path.write_bytes(pem(certify(x509.load_pem_x509_certificate(path.read_bytes()), key, authority, DAYS)))
    path.with_suffix(".key").unlink()


@contextmanager
def startup_kits(federation: Federation, folder: Path, out: Path) -> Iterator[Path]:
    """FLARE's start-up kits of all parties, by identity, in a folder that is removed afterwards.

    Raises:
        KitError: with what FLARE says of it.
    """
    root = out / "authority"
    root.mkdir(exist_ok=True)
    root.chmod(PRIVATE)
    project = make_project(federation, folder)
    log, kept = logging.Logger("provisioner"), MemoryHandler(MESSAGES, flushLevel=logging.CRITICAL + 1)
    log.addHandler(kept)
    builders = [
        WorkspaceBuilder(["master_template.yml"]),
        StaticFileBuilder(config_folder="config", scheme=SCHEME),
        CertBuilder(root_valid_days=federation.valid_days),
    ]
    context = Provisioner(str(root), builders).provision(project, logger=log)
    if context.get(CtxKey.BUILD_ERROR):
        warnings = [each.getMessage() for each in kept.buffer if each.levelno >= logging.WARNING]
        raise KitError(f"the kits cannot be made: {'; '.join(warnings)}")
    made = Path(context[CtxKey.CURRENT_PROD_DIR])
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        forget_keys(state_file(federation, out))


def make_project(federation: Federation, folder: Path) -> Project:
    """The federation as a FLARE provisioning project."""
    certificate, key = read_authority(federation, folder)
    project = Project(
        federation.name,
        "dermfed",
        props={"api_version": FORMAT},
        serialized_root_cert=certificate,
        root_private_key=key,
    )
    coordinator = federation.coordinator
    project.set_server(
        coordinator.host,
        coordinator.organisation,
        {
            "fed_learn_port": coordinator.port,
            "admin_port": coordinator.port,
            "default_host": coordinator.host,
            "host_names": list(coordinator.also),
        },
    )
    for each in parties(federation):
        if each.role == "hospital":
            project.add_client(each.identity, each.organisation, {"allow_log_streaming": False})
        elif each.role == "admin":
            project.add_admin(each.identity, each.organisation, {"role": "lead"})
    return project


def read_authority(federation: Federation, folder: Path) -> tuple[bytes | None, Any]:
    """The certificate (PEM) and private key of a given authority, or nothing.

    Raises:
        FederationFileError: when they cannot be read.
    """
    if federation.authority is None:
        return None, None
    try:
        certificate = (folder / federation.authority.certificate).read_bytes()
        key = (folder / federation.authority.key).read_bytes()
        return certificate, serialization.load_pem_private_key(key, password=None)
    except (OSError, ValueError, TypeError) as error:
        raise FederationFileError(
            f"the authority's files cannot be used: {error}; needed are a certificate and its private key in "
            "PEM, the key without a password"
        ) from error


def finish_kit(made: Path, facts: KitFacts) -> None:
    """Turn FLARE's start-up kit into ours: no scripts, our identity, `kit.json`."""
    for script in SCRIPTS:
        (made / "startup" / script).unlink(missing_ok=True)
        (made / script).unlink(missing_ok=True)
    if facts.role != "admin":
        for default in (made / "local").iterdir():
            default.unlink()
    else:
        path = made / "startup" / "fed_admin.json"
        settings = json.loads(path.read_text())
        settings["admin"]["username"] = facts.identity
        settings["admin"]["uid_source"] = "cert"
        write_json(path, settings)
    write_text(made / "kit.json", facts.model_dump_json(indent=2) + "\n")


def write_site_files(kit: Path, facts: KitFacts) -> None:
    """Write the site's policy files into a kit; again at every start, since kits are moved.

    All of a kit is its owner's alone, the folder in which states and results are kept above all.
    """
    for folder in (kit, kit / "private", kit / "transfer", kit / "local", kit / "startup"):
        folder.mkdir(exist_ok=True)
    if facts.role != "admin":
        write_json(kit / "local" / "authorization.json", AUTHORIZATION)
        write_json(kit / "local" / "log_config.json", log_settings())
    if facts.role == "server":
        write_json(kit / "local" / "resources.json", server_resources((kit / "private").absolute()))
    elif facts.role == "hospital":
        write_json(kit / "local" / "resources.json", hospital_resources())
    for path in (kit, *kit.rglob("*")):
        with suppress(FileNotFoundError):  # somebody is at work there
            path.chmod(PRIVATE if path.is_dir() else PRIVATE_FILE)


def write_json(path: Path, content: Any) -> None:
    """Write JSON with indentation."""
    write_text(path, json.dumps(content, indent=2) + "\n")


ROOT = "rootCA.pem"


def renew(federation: Federation, folder: Path, out: Path) -> list[Path]:
    """Renew the certificates of every kit, in place and in `renewed/` to be sent; returns these folders.

    An authority that was made here gets a new certificate too, for its key and name as they are.

    Args:
        federation: who is in.
        folder: from where the authority's files are named.
        out: where `provision` put the kits.

    Raises:
        KitError: a kit is not there.
        FederationFileError: the authority's files cannot be used.
    """
    facts = parties(federation)
    missing = [each.name for each in facts if not (out / each.name / "kit.json").exists()]
    if missing:
        raise KitError(
            f"no kit of {', '.join(missing)} in {out}; renewing needs the certificates that are in the kits, "
            "not their keys: run `dermfed-node provision` for those that are new or lost"
        )
    authority = open_authority(federation, folder, out)
    if federation.authority is None:
        authority = CertificateAuthority(
            certify(authority.certificate, key_of(authority.certificate), authority, federation.valid_days),
            authority.key,
        )
        path = state_file(federation, out)
        write_text(
            path,
            json.dumps({**json.loads(path.read_text()), "root_cert": pem(authority.certificate).decode()}),
        )
    made = []
    for each in facts:
        kit = open_kit(out / each.name)
        own = x509.load_pem_x509_certificate(kit.certificate.read_bytes())
        new = certify(own, key_of(own), authority, DAYS)
        place = out / RENEWED / each.name
        for target in (kit.path / "startup", place):
            target.mkdir(parents=True, exist_ok=True)
            target.chmod(PRIVATE)
            write_bytes(target / kit.certificate.name, pem(new))
            write_bytes(target / ROOT, pem(authority.certificate))
        made.append(place)
    return made
