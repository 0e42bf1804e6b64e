"""`dermfed-node check`: whether a node is fit to take part, checked without the coordinator's help."""

import base64
import http.client
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import psutil
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from clients.federation.errors import FederationError, KitError, PolicyFileError
from clients.federation.kit import Kit
from clients.node.guards import verdicts_on
from clients.node.identity import known_path, read_known
from clients.node.own_data import OwnData, listed, read_own
from clients.node.policy import POLICY, Policy, hours_in_words, limits_in_words, read_policy
from registry.bundle.score_bins import smallest_cell
from training.algorithms.client import FolderReleases
from training.data.dataset import SPLITS
from training.engines.roster import installed
from training.errors import JobError, TrainingError
from training.jobs.disclosure_report import decide_masks, disclosures, over_network, why_open
from training.jobs.job import Job
from training.messages import tensor_bytes
from training.models import initial_model
from training.models.classifier import float_state
from training.privacy.secagg.keys import fingerprint
from training.rounds.client.ledger import CensusAccount

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
NO_PROXY = ("no_grpc_proxy", "no_proxy")
USUAL_PORT = 80


def proxy_for(host: str, environment: Mapping[str, str] = os.environ) -> SplitResult | None:
    """The address of the proxy through which gRPC reaches a host; None where it asks none.

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
    proxy = urlsplit(environment[name])
    if proxy.scheme != "http" or not proxy.hostname:
        raise ValueError(f"{name} is no http://host:port; gRPC knows no other proxies")
    return proxy


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
    place, headers = (proxy.hostname or "", proxy.port or USUAL_PORT), {}
    if proxy.username is not None:
        who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(who.encode()).decode()}"
    tunnel = http.client.HTTPConnection(*place, timeout=seconds)
    tunnel.set_tunnel(host, port, headers)
    try:
        tunnel.connect()
    except http.client.HTTPException as error:
        raise OSError("the proxy {}:{} does not speak HTTP".format(*place)) from error
    finally:
        tunnel.close()
    return " through the proxy {}:{}".format(*place)


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


def judge(about: str, check: Callable[..., str], *of: Any) -> CheckResult:
    """The result of a check that returns what it found, and raises what is not as it must be."""
    try:
        return CheckResult(about, True, check(*of))
    except TrainingError as error:
        return CheckResult(about, False, str(error))


def check_node(kit: Kit, job: Job | None, data: Path | None, cache: Path) -> Iterator[CheckResult]:
    """Run all checks.

    Args:
        kit: whose node.
        job: the job to come, if it is known: then data are read as it asks.
        data: the manifest.
        cache: where decoded pictures are kept.
    """
    yield judge("versions", check_versions)
    yield judge("certificate", check_certificate, kit)
    yield judge("clock", check_clock, kit)
    yield judge("disk", check_disk, kit.path)
    if kit.facts.role == "server":
        yield judge("port", check_port, kit.federation.coordinator.port)
    else:
        yield judge("connection", check_connection, kit)
    if kit.facts.role == "hospital":
        yield judge("identity", check_identity, kit)
    policy, unread = None, ""
    try:
        policy = read_policy(kit.path / POLICY)
    except PolicyFileError as error:
        unread = f"{error}\nuntil it is mended this node does nothing"
    if data is not None and job is not None:
        yield from check_data(
            kit, job, data, cache, census_apart=bool(policy and policy.privacy.census_apart)
        )
    if kit.facts.role == "hospital":
        yield from check_policy(kit, job, policy) if policy else [CheckResult("policy", False, unread)]
    if job is not None:
        yield CheckResult("job", True, describe_job(kit, job))
        for seen in disclosures(over_network(job), kit.federation.names):
            yield CheckResult(f"who sees {seen.topic}", True, seen.line)


def check_versions() -> str:
    """The installed versions, which the coordinator compares."""
    versions = installed()
    missing = [name for name in ("dermfed", "torch", "nvflare") if name not in versions]
    text = ", ".join(f"{name} {number}" for name, number in versions.items())
    if missing:
        raise FederationError(f"{', '.join(missing)} missing; pip install 'dermfed[node]'. {text}")
    return text


def check_certificate(kit: Kit) -> str:
    """Whether the certificate is this node's, signed by the federation's authority, and valid for a while."""
    kit.require_key()
    try:
        own = x509.load_pem_x509_certificate(kit.certificate.read_bytes())
        root = x509.load_pem_x509_certificate((kit.path / "startup" / "rootCA.pem").read_bytes())
        own.verify_directly_issued_by(root)
        key = serialization.load_pem_private_key(kit.key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise KitError(f"{error}; ask for a new kit") from error
    except InvalidSignature as error:
        raise KitError("not signed by the federation's authority; ask for a new kit") from error
    if key.public_key() != own.public_key():
        raise KitError(f"{kit.key} is not the key that {kit.certificate} was made for")
    now = datetime.now(UTC)
    days = (min(own.not_valid_after_utc, root.not_valid_after_utc) - now).days
    if own.not_valid_before_utc > now or days < 0:
        raise KitError(
            f"not valid now, only {own.not_valid_before_utc:%Y-%m-%d} to {own.not_valid_after_utc:%Y-%m-%d}; "
            "set the clock, or ask for a renewal"
        )
    soon = " - ask for a renewal" if days < SOON else ""
    return f"{own.subject.rfc4514_string()}, {days} days left{soon}"


def check_identity(kit: Kit) -> str:
    """The key by which others know this hospital in sums under masks, and the keys by which it knows them."""
    try:
        key = x509.load_pem_x509_certificate(kit.certificate.read_bytes()).public_key()
        known = read_known(known_path(kit))
    except (OSError, ValueError) as error:
        raise KitError(str(error)) from error
    if not isinstance(key, RSAPublicKey):
        raise KitError(f"{kit.certificate} holds no RSA key; ask for a new kit")
    others = [name for name in kit.federation.names if name != kit.facts.name]
    told = [f"{name} is known by {known[name]}" for name in others if name in known]
    new = [name for name in others if name not in known]
    told += [f"no sum yet with {', '.join(new)}"] if new else []
    return "; ".join([f"signs sums with the key {fingerprint(key)}", *told])


def check_policy(kit: Kit, job: Job | None, policy: Policy) -> Iterator[CheckResult]:
    """What the hospital's own policy is, and what each of its rules says of a job."""
    path = kit.path / POLICY
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


def describe_job(kit: Kit, job: Job) -> str:
    """Which job it is, and whether what leaves is masked or plain."""
    privacy = decide_masks(over_network(job), kit.federation.names).privacy
    ways = {True: "as sums under masks", False: "PLAIN, of this hospital by itself"}
    weights, counts = privacy.secure_aggregation is not None, privacy.masked_counts is not None
    return f"{job.name}, {job.digest}: weights leave {ways[weights]}; counts of answers leave {ways[counts]}"


def check_clock(kit: Kit) -> str:
    """Whether this clock is not before the kit was made."""
    made = datetime.fromtimestamp((kit.path / "kit.json").stat().st_mtime, UTC)
    now = datetime.now(UTC)
    if now < made:
        raise FederationError(f"{now:%Y-%m-%d %H:%M} UTC is before the kit was made; set it")
    return f"{now:%Y-%m-%d %H:%M} UTC"


def check_disk(path: Path) -> str:
    """Whether there is enough disk space."""
    free = shutil.disk_usage(path).free
    text = f"{free / 1e9:.1f} GB free at {path}"
    if free < DISK:
        raise FederationError(f"{text}; {DISK / 1e9:.0f} GB are wanted")
    return text


def check_port(port: int) -> str:
    """Whether the coordinator's port is free here."""
    try:
        socket.create_server(("", port)).close()
    except OSError as error:
        raise FederationError(f"{port}: {error}; stop what uses it") from error
    return f"{port} is free"


def check_connection(kit: Kit) -> str:
    """Whether the coordinator's port can be reached from here."""
    address = kit.federation.coordinator
    place = f"{address.host}:{address.port}"
    try:
        return f"{place} answers{reach(address.host, address.port, SECONDS)}"
    except (OSError, ValueError) as error:
        raise FederationError(
            f"{place}: {error}; allow outgoing connections to it, and ask whether it runs. Is there a proxy "
            "in between, set grpc_proxy=http://host:port"
        ) from error


def check_data(kit: Kit, job: Job, data: Path, cache: Path, *, census_apart: bool) -> Iterator[CheckResult]:
    """Whether the pictures can be used as the job asks, and what will be sent of what is learned."""
    try:
        own = read_own(job, kit.facts.name, data, cache)
    except TrainingError as error:
        yield CheckResult("data", False, str(error))
        return
    examples = {split: own.dataset.examples(own.dataset.clients[0], split) for split in SPLITS}
    counts = ", ".join(f"{len(found)} {split}" for split, found in examples.items())
    labels = ", ".join(label.code for label in own.properties.labels)
    groups = ", ".join(own.properties.subgroups) or "none"
    text = f"{own.pictures} pictures ({counts}); classes {labels}; subgroups {groups}"
    yield CheckResult("data", True, text)
    for line in own.not_used:
        yield CheckResult("not used", True, line)
    if census_apart:
        yield judge("census", check_census, kit, job, own)
    try:
        yield from check_model(job, own)
    except JobError as error:
        yield CheckResult("model", False, str(error))


def check_census(kit: Kit, job: Job, own: OwnData) -> str:
    """Whether the number of pictures may be sent to a new run, where the policy compares with earlier runs.

    Classes and subgroups are this node's alone; the run's may be more, which changes no set of pictures.
    """
    account = CensusAccount(FolderReleases(kit.releases), kit.facts.name)
    try:
        account.refuse_near(listed(own), job.privacy.min_count)
    except TrainingError as error:
        raise FederationError(f"a new run is refused: {error}") from error
    return "far enough from what earlier runs were told of numbers of pictures"


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
