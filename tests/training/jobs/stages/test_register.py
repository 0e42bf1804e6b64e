import json
from dataclasses import dataclass, field

import pytest

from registry.bundle.folder import Bundle, read_bundle
from registry.registry import Registry, key_signatory
from training.errors import JobError
from training.jobs.stages.base import Registered, no_registry

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
    from registry.signing.attestation import Attester, check_attestation
    from registry.signing.keys import write_key_pair

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
    from registry.signing.keys import write_key_pair

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
