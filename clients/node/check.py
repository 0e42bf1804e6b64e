"""`dermfed-node check`: whether a node is fit to take part, checked without the coordinator's help."""

import base64
import http.client
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psutil
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from clients.federation.errors import KitError, PolicyFileError
from clients.federation.kit import Kit
from clients.node.guards import verdicts_on
from clients.node.identity import known_path, read_known
from clients.node.own_data import OwnData, listed, read_own
from clients.node.policy import POLICY, hours_in_words, limits_in_words, read_policy
from registry.bundle.counts.score_bins import smallest_cell
from training.algorithms.client import FolderReleases
from training.data.dataset import SPLITS
from training.engines.flare.roster import installed
from training.errors import JobError, TrainingError
from training.jobs.disclosure_report import decide_masks, disclosures, over_network, why_open
from training.jobs.job import Job
from training.messages.message import tensor_bytes
from training.models import initial_model
from training.models.classifier import float_state
from training.privacy.secagg.keys import fingerprint
from training.rounds.client.ledger import CensusAccount

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
NO_PROXY = ("no_grpc_proxy", "no_proxy")
USUAL_PORT = 80


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy.

    Attributes:
        host: its name or address.
        port: where it listens.
        headers: sent to it: credentials, where the address has them.
    """

    host: str
    port: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def proxy_for(host: str, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy through which gRPC reaches a host; None where it asks none.

    gRPC takes the first of `grpc_proxy`, `https_proxy` and `http_proxy` that is set, and none for hosts that
    end with a part of `no_grpc_proxy` or else `no_proxy`, all in small letters; it asks the proxy to CONNECT
    to the coordinator and speaks TLS to it through that. The check does the same with the standard library.

    Raises:
        ValueError: the variable is no `http://host:port`, which gRPC would pass over in silence.
    """
    name = next((name for name in PROXIES if environment.get(name)), None)
    if name is None:
        return None
    without = next((environment[name] for name in NO_PROXY if environment.get(name)), "")
    if any(host.endswith(end.strip()) for end in without.split(",") if end.strip()):
        return None
    parts = urlsplit(environment[name])
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{name} is no http://host:port; gRPC knows no other proxies")
    headers = {}
    if parts.username is not None:
        who = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(who.encode()).decode()}"
    return Proxy(parts.hostname, parts.port or USUAL_PORT, headers)


def reach(host: str, port: int, seconds: float) -> str:
    """Opens a connection as gRPC would and closes it; says through which proxy, or nothing.

    Raises:
        OSError: the coordinator, or the proxy, cannot be reached, or the proxy refuses.
        ValueError: of `proxy_for`.
    """
    proxy = proxy_for(host)
    if proxy is None:
        socket.create_connection((host, port), timeout=seconds).close()
        return ""
    tunnel = http.client.HTTPConnection(proxy.host, proxy.port, timeout=seconds)
    tunnel.set_tunnel(host, port, dict(proxy.headers))
    try:
        tunnel.connect()
    except http.client.HTTPException as error:
        raise OSError(f"the proxy {proxy.host}:{proxy.port} does not speak HTTP") from error
    finally:
        tunnel.close()
    return f" through the proxy {proxy.host}:{proxy.port}"


DISK = 2_000_000_000  # bytes that decoded pictures, states and logs should find free
COPIES = 4  # of a model in memory while it is trained: weights, gradients, two moments
SOON = 30  # days before a certificate's end that the check warns
SECONDS = 5.0  # to reach the coordinator


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        about: what.
        fit: whether it is as it must be.
        text: what was found, and what to do where it is not.
    """

    about: str
    fit: bool
    text: str


def check_node(kit: Kit, job: Job | None, data: Path | None, cache: Path) -> list[CheckResult]:
    """Run all checks.

    Args:
        kit: whose node.
        job: the job to come, if it is known: then data are read as it asks.
        data: the manifest.
        cache: where decoded pictures are kept.
    """
    found = [
        check_versions(),
        check_certificate(kit),
        check_clock(kit),
        check_disk(kit.path),
        check_connection(kit),
    ]
    if kit.facts.role == "hospital":
        found.append(check_identity(kit))
    if data is not None and job is not None:
        found += check_data(kit, job, data, cache)
    found += check_policy(kit, job)
    if job is not None:
        found.append(describe_job(kit, job))
        found += [
            CheckResult(f"who sees {seen.topic}", True, seen.line)
            for seen in disclosures(over_network(job), kit.federation.names)
        ]
    return found


def check_versions() -> CheckResult:
    """The installed versions, which the coordinator compares."""
    versions = installed()
    missing = [name for name in ("dermfed", "torch", "nvflare") if name not in versions]
    text = ", ".join(f"{name} {number}" for name, number in versions.items())
    if missing:
        return CheckResult(
            "versions", False, f"{', '.join(missing)} missing; pip install 'dermfed[node]'. {text}"
        )
    return CheckResult("versions", True, text)


def check_certificate(kit: Kit) -> CheckResult:
    """Whether the certificate is this node's, signed by the federation's authority, and valid for a while."""
    try:
        kit.require_key()
        own = x509.load_pem_x509_certificate(kit.certificate.read_bytes())
        root = x509.load_pem_x509_certificate((kit.path / "startup" / "rootCA.pem").read_bytes())
        own.verify_directly_issued_by(root)
        key = serialization.load_pem_private_key(kit.key.read_bytes(), password=None)
    except KitError as error:
        return CheckResult("certificate", False, f"{error}")
    except (OSError, ValueError, TypeError) as error:
        return CheckResult("certificate", False, f"{error}; ask for a new kit")
    except InvalidSignature:
        return CheckResult(
            "certificate", False, "not signed by the federation's authority; ask for a new kit"
        )
    if key.public_key() != own.public_key():
        return CheckResult(
            "certificate", False, f"{kit.key} is not the key that {kit.certificate} was made for"
        )
    days = (
        min(own, root, key=lambda each: each.not_valid_after_utc).not_valid_after_utc - datetime.now(UTC)
    ).days
    if own.not_valid_before_utc > datetime.now(UTC) or days < 0:
        return CheckResult(
            "certificate",
            False,
            f"not valid now, only {own.not_valid_before_utc:%Y-%m-%d} to {own.not_valid_after_utc:%Y-%m-%d}; "
            "set the clock, or ask for a renewal",
        )
    soon = " - ask for a renewal" if days < SOON else ""
    return CheckResult("certificate", True, f"{own.subject.rfc4514_string()}, {days} days left{soon}")


def check_identity(kit: Kit) -> CheckResult:
    """The key by which others know this hospital in sums under masks, and the keys by which it knows them."""
    try:
        key = x509.load_pem_x509_certificate(kit.certificate.read_bytes()).public_key()
        known = read_known(known_path(kit))
    except (OSError, ValueError, TrainingError) as error:
        return CheckResult("identity", False, f"{error}")
    if not isinstance(key, RSAPublicKey):
        return CheckResult("identity", False, f"{kit.certificate} holds no RSA key; ask for a new kit")
    others = [name for name in kit.federation.names if name != kit.facts.name]
    told = [f"{name} is known by {known[name]}" for name in others if name in known]
    new = [name for name in others if name not in known]
    told += [f"no sum yet with {', '.join(new)}"] if new else []
    return CheckResult("identity", True, "; ".join([f"signs sums with the key {fingerprint(key)}", *told]))


def check_policy(kit: Kit, job: Job | None) -> Iterator[CheckResult]:
    """What the hospital's own policy is, and what each of its rules says of a job."""
    if kit.facts.role != "hospital":
        return
    path = kit.path / POLICY
    try:
        policy = read_policy(path)
    except PolicyFileError as error:
        yield CheckResult("policy", False, f"{error}\nuntil it is mended this node does nothing")
        return
    shown = {"privacy", *policy.model_dump(exclude_defaults=True)}
    own = f"{path}: " if path.exists() else f"no file, so these values hold; {path} may say otherwise: "
    yield CheckResult("policy", True, f"{own}{policy.model_dump_json(include=shown)}")
    if policy.hours:
        answered = f"requests are answered {hours_in_words(policy.hours)}, by this machine's clock"
        yield CheckResult("policy hours", True, answered)
    if lines := limits_in_words(policy):
        yield CheckResult("policy limits", True, "; ".join(lines))
    if job is not None:
        there, names = over_network(job), kit.federation.names
        for each in verdicts_on(policy, decide_masks(there, names), why_open(there, names)):
            yield CheckResult(f"policy {each.rule}", each.allowed, each.text)


def describe_job(kit: Kit, job: Job) -> CheckResult:
    """Which job it is, and whether what leaves is masked or plain."""
    privacy = decide_masks(over_network(job), kit.federation.names).privacy
    ways = {True: "as sums under masks", False: "PLAIN, of this hospital by itself"}
    weights, counts = privacy.secure_aggregation is not None, privacy.masked_counts is not None
    return CheckResult(
        "job",
        True,
        f"{job.name}, {job.digest}: weights leave {ways[weights]}; counts of answers leave {ways[counts]}",
    )


def check_clock(kit: Kit) -> CheckResult:
    """Whether this clock is not before the kit was made."""
    made = datetime.fromtimestamp((kit.path / "kit.json").stat().st_mtime, UTC)
    now = datetime.now(UTC)
    if now < made:
        return CheckResult("clock", False, f"{now:%Y-%m-%d %H:%M} UTC is before the kit was made; set it")
    return CheckResult("clock", True, f"{now:%Y-%m-%d %H:%M} UTC")


def check_disk(path: Path) -> CheckResult:
    """Whether there is enough disk space."""
    free = shutil.disk_usage(path).free
    text = f"{free / 1e9:.1f} GB free at {path}"
    if free < DISK:
        return CheckResult("disk", False, f"{text}; {DISK / 1e9:.0f} GB are wanted")
    return CheckResult("disk", True, text)


def check_connection(kit: Kit) -> CheckResult:
    """Whether the coordinator's port can be reached from here; at the coordinator, whether it is free."""
    address = kit.federation.coordinator
    place = f"{address.host}:{address.port}"
    try:
        if kit.facts.role == "server":
            with socket.create_server(("", address.port)):
                return CheckResult("port", True, f"{address.port} is free")
        return CheckResult("connection", True, f"{place} answers{reach(address.host, address.port, SECONDS)}")
    except (OSError, ValueError) as error:
        if kit.facts.role == "server":
            return CheckResult("port", False, f"{address.port}: {error}; stop what uses it")
        return CheckResult(
            "connection",
            False,
            f"{place}: {error}; allow outgoing connections to it, and ask whether it runs. Is there a proxy "
            "in between, set grpc_proxy=http://host:port",
        )


def check_data(kit: Kit, job: Job, data: Path, cache: Path) -> Iterator[CheckResult]:
    """Whether the pictures can be used as the job asks, and what will be sent of what is learned."""
    try:
        own = read_own(job, kit.facts.name, data, cache)
    except TrainingError as error:
        yield CheckResult("data", False, f"{error}")
        return
    yield CheckResult("data", True, describe_data(own))
    for line in own.not_used:
        yield CheckResult("not used", True, line)
    yield from check_census(kit, job, own)
    try:
        yield from check_model(job, own)
    except JobError as error:
        yield CheckResult("model", False, f"{error}")


def check_census(kit: Kit, job: Job, own: OwnData) -> Iterator[CheckResult]:
    """Whether the number of pictures may be sent to a new run, where the policy compares with earlier runs.

    Classes and subgroups are this node's alone; the run's may be more, which changes no set of pictures.
    """
    try:
        if not read_policy(kit.path / POLICY).privacy.census_apart:
            return
        account = CensusAccount(FolderReleases(kit.releases), kit.facts.name)
        account.refuse_near(listed(own), job.privacy.min_count)
    except PolicyFileError:
        return  # told by `check_policy`
    except TrainingError as error:
        yield CheckResult("census", False, f"a new run is refused: {error}")
        return
    yield CheckResult("census", True, "far enough from what earlier runs were told of numbers of pictures")


def describe_data(own: OwnData) -> str:
    """The pictures in numbers, for their owner."""
    counts = ", ".join(
        f"{len(own.dataset.examples(own.dataset.clients[0], split))} {split}" for split in SPLITS
    )
    labels = ", ".join(label.code for label in own.properties.labels)
    groups = ", ".join(own.properties.subgroups) or "none"
    return f"{own.pictures} pictures ({counts}); classes {labels}; subgroups {groups}"


def check_model(job: Job, own: OwnData) -> Iterator[CheckResult]:
    """Whether the model can be made and fits into memory; what of it is sent, and what never is.

    Raises:
        JobError: its weights are not here, or do not fit.
    """
    model = initial_model(job.model, job.seed, job.data.image_size, len(own.properties.labels), job.data.case)
    state = float_state(model)
    size = tensor_bytes(state)
    free = psutil.virtual_memory().available
    text = f"{COPIES} copies of a model of {size / 1e6:.1f} MB; {free / 1e9:.1f} GB free"
    yield CheckResult("memory", COPIES * size < free, text)
    shapes = [f"{name} {tuple(tensor.shape)}" for name, tensor in list(state.items())[:3]]
    for origin in model.origins:
        told = [*origin.lines, f"{origin.source.path}: {origin.source.sha256}"]
        yield CheckResult("encoder", True, "; ".join(told))
    yield CheckResult(
        "sent",
        True,
        f"each round {len(state)} tensors, {size:,} bytes at most ({'; '.join(shapes)}; …); what else, and "
        f"who sees it, is told below. Never: {never_leaves(job.privacy.min_count)}",
    )


def never_leaves(min_count: int) -> str:
    """What no answer to the coordinator discloses, given `privacy.min_count`."""
    never = "pictures, file names, lesion and patient numbers, keys, logs"
    if min_count <= 1:
        return f"{never}. Counts and losses may be of one patient (privacy.min_count: {min_count})"
    return (
        f"{never}, predictions for one picture; losses, counts of answers and sums over fewer than "
        f"{min_count} patients, by themselves or as the difference of two answers; a bin of a histogram with "
        f"fewer than {smallest_cell(min_count)}. Numbers of pictures and matrices of answers are exact"
    )
