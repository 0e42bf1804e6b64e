"""A hospital's own policy: a job that breaks it opens nothing, and no start overwrites it."""

import json
from datetime import datetime
from types import SimpleNamespace

import pytest
import yaml
from pydantic import ValidationError
from typer.testing import CliRunner

from benchmarks.loopback.permissive import PERMISSIVE
from clients.federation.errors import PolicyError, PolicyFileError
from clients.federation.job_folder import pack
from clients.federation.kit import read_federation
from clients.federation.provision import provision, write_site_files
from clients.node import guards
from clients.node import hospital as hospitals
from clients.node.cli import app
from clients.node.guards import PolicyGuard, noise_of, recipe_of, verdicts_on, within_limits
from clients.node.hospital import open_gateway
from clients.node.policy import POLICY, Hours, Policy, read_policy
from tests.clients.node.talk import ask, handshake, join, request
from training.engines.wire import read_response
from training.jobs.job import Job, read_job
from training.jobs.recipes import recipe_path


@pytest.fixture
def write(kit):
    """`write(**blocks)`: the hospital writes its policy, which allows what it does not name."""

    def put(**blocks):
        (kit.path / POLICY).write_text(yaml.safe_dump(allowing(blocks)))

    return put


def allowing(blocks: dict[str, object]) -> dict[str, object]:
    """A policy that allows what it does not name."""
    return {**blocks, "privacy": {**PERMISSIVE["privacy"], **blocks.get("privacy", {})}}


def changed(job: Job, **blocks: object) -> Job:
    """The job with some blocks replaced."""
    return Job.model_validate({**job.model_dump(mode="json"), **blocks})


def refused_rules(policy: dict[str, object], job: Job) -> set[str]:
    """The rules that a job breaks."""
    return {
        each.rule for each in verdicts_on(Policy.model_validate(allowing(policy)), job) if not each.allowed
    }


MASKS = {"secure_aggregation": {"fewest": 4}}
NOISE = {"client_level": {"clip": 1.0, "noise_multiplier": 0.8}}


@pytest.mark.parametrize(
    ("rule", "least", "good", "bad"),
    [
        ("min_count", 5, {"min_count": 5}, {"min_count": 4}),
        ("masked_counts", True, {"counts": {"masks": True}}, {"counts": {"masks": False}}),
        ("masked_weights", True, MASKS, {}),
        ("fewest", 4, MASKS, {"secure_aggregation": {"fewest": 3}}),
        ("fewest", 4, {"counts": {"masks": False}}, {"counts": {"masks": True}}),  # whose sums are over 3
        ("least_noise", 0.8, NOISE, {}),
        ("least_noise", 0.9, {"client_level": {"clip": 1.0, "noise_multiplier": 0.9}}, NOISE),
        ("largest_epsilon", 2, {"counts": {"epsilon": 2}}, {"counts": {"epsilon": 3}}),
        ("largest_epsilon", 2, {"counts": {"epsilon": 1}}, {"min_count": 9}),
    ],
)
def test_each_rule_on_privacy_lets_through_what_keeps_to_it_and_nothing_less(
    rule, least, good, bad, small_job
):
    policy = {"privacy": {rule: least}}
    assert refused_rules(policy, changed(small_job, privacy=good)) == set()
    assert refused_rules(policy, changed(small_job, privacy=bad)) == {f"privacy.{rule}"}


@pytest.mark.parametrize(("counts", "has"), [({}, "no noise on them"), ({"epsilon": 3}, "3")])
def test_a_refusal_says_what_is_asked_and_what_the_job_has(counts, has, small_job):
    policy = Policy.model_validate(allowing({"privacy": {"largest_epsilon": 2}}))
    judged = verdicts_on(policy, changed(small_job, privacy={"counts": counts}))
    told = [each.text for each in judged if not each.allowed]
    assert told == [f"counts with ε of 2 or less are asked, the job has {has}"]


def test_jobs_are_pinned_by_digest_or_are_those_of_a_recipe(small_job):
    other = changed(small_job, seed=4)
    assert refused_rules({"jobs": {"digests": [small_job.digest]}}, small_job) == set()
    assert refused_rules({"jobs": {"digests": [small_job.digest]}}, other) == {"jobs"}
    assert refused_rules({"jobs": {"recipes": ["demo"]}}, small_job) == {"jobs"}
    with pytest.raises(ValidationError, match="demmo"):
        Policy.model_validate({"jobs": {"recipes": ["demo", "demmo"]}})


def test_a_job_is_a_recipe_by_what_is_in_it_and_not_by_what_it_says_of_itself(small_job):
    path = recipe_path("demo")
    demo = read_job(path)
    own = demo.model_copy(update={"name": "ours", "seed": 9, "about": None})
    assert recipe_of(own, ("demo",)) == "demo"
    liar = small_job.model_copy(update={"name": demo.name, "about": demo.about})
    assert recipe_of(liar, ("demo",)) is None
    assert recipe_of(own, ("fedclf",)) is None


def test_noise_counts_where_all_that_is_trained_gets_it(small_job):
    assert noise_of(small_job) == 0
    assert noise_of(changed(small_job, privacy=NOISE)) == 0.8


def test_a_job_that_breaks_the_policy_opens_no_picture_and_is_told_a_code(
    gateway, small_job, write, monkeypatch
):
    opened, said = [], []
    real = hospitals.RequestHandler.register.__globals__["read_own"]
    monkeypatch.setattr(
        "clients.node.request_handler.read_own", lambda *given: opened.append(given) or real(*given)
    )
    monkeypatch.setattr(gateway.receiver.handler, "_say", said.append)
    write(privacy={"min_count": 50})
    for told in (handshake(gateway, small_job), gateway.register()):
        assert json.loads(told)["refused"].startswith("policy: its own policy does not allow this")
        assert "50" not in told
    assert opened == []
    assert "privacy.min_count: 50 or more is asked, the job has 1" in said[0]
    write()  # the control: one that allows it has the pictures read
    join(gateway, small_job)
    assert opened


def test_it_holds_from_the_moment_it_is_written(gateway, small_job, write, monkeypatch):
    join(gateway, small_job)
    assert isinstance(ask(gateway, small_job, "fit", 1), list)
    write(privacy={"min_count": 50})
    trained = []
    monkeypatch.setattr("training.rounds.client.fit.train_locally", lambda *_: trained.append(1))
    header, body, stamp = request(small_job, "fit", 2)
    told = gateway.answer(header, body, len(body))
    assert read_response(told[0], told[1], stamp).reason.startswith("policy: ")
    assert trained == []


@pytest.mark.parametrize(
    "text", ["privacy: {min_count: 0}", "hours: [", "- 1", "privacy: {min_cuont: 5}", "\xff"]
)
def test_one_that_cannot_be_read_allows_nothing(gateway, small_job, kit, text):
    (kit.path / POLICY).write_bytes(text.encode("latin-1"))
    assert json.loads(handshake(gateway, small_job))["refused"].startswith("policy: ")
    with pytest.raises(PolicyFileError):
        read_policy(kit.path / POLICY)


def test_with_one_that_cannot_be_read_a_node_does_not_start(kit, write, tmp_path):
    write(privacy={"min_cuont": 5})
    before = (kit.path / "local" / "resources.json").read_bytes()
    (tmp_path / "manifest.csv").write_text("image,label\n")
    started = CliRunner().invoke(
        app, ["start", "--kit", str(kit.path), "--data", str(tmp_path / "manifest.csv")]
    )
    assert isinstance(started.exception, PolicyFileError)
    assert (kit.path / "local" / "resources.json").read_bytes() == before
    assert not (kit.path / "node.log").exists()


@pytest.mark.parametrize(
    ("now", "open_"),
    [
        ("2026-03-02T18:59", False),  # a Monday
        ("2026-03-02T19:00", True),
        ("2026-03-03T05:59", True),
        ("2026-03-03T06:00", False),
        ("2026-03-07T23:00", False),  # a Saturday
        ("2026-03-07T05:00", True),  # of Friday's night
    ],
)
def test_hours_go_over_midnight_and_belong_to_the_day_on_which_they_begin(now, open_):
    nights = Hours.model_validate(
        {"days": ["mon", "tue", "wed", "thu", "fri"], "begin": "19:00", "end": "06:00"}
    )
    assert nights.hold(datetime.fromisoformat(now)) is open_
    day = Hours.model_validate({"begin": "06:00", "end": "19:00"})
    assert Policy(hours=(nights, day)).open_at(datetime.fromisoformat("2026-03-07T12:00"))


def test_out_of_hours_a_question_waits_for_nobody_and_is_told_by_a_code(gateway, small_job, write):
    join(gateway, small_job)
    write(hours=[{"begin": "02:00", "end": "03:00"}])
    guard = gateway.receiver.handler._guard
    guard.clock = lambda: datetime.fromisoformat("2026-03-02T12:00")
    told = ask(gateway, small_job, "fit", 1)
    assert '"failure": "hours: ' in told[0]
    guard.clock = lambda: datetime.fromisoformat("2026-03-02T02:30")
    assert '"failure"' not in ask(gateway, small_job, "fit", 2)[0]


def test_threads_and_devices_are_within_the_limits_and_the_job_keeps_its_digest(small_job):
    greedy = changed(small_job, engine={"threads_per_client": 8, "device": "cuda"})
    limited = within_limits(Policy.model_validate({"limits": {"threads": 2, "gpu": False}}), greedy)
    assert (limited.engine.threads_per_client, limited.engine.device) == (2, "cpu")
    assert within_limits(Policy(), greedy) is greedy


def test_a_node_trains_within_the_limits(gateway, small_job, write, monkeypatch):
    import torch

    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    write(limits={"threads": 1, "gpu": False})
    join(gateway, small_job)
    assert threads == [1]
    assert gateway.receiver.handler._app._job.engine.device == "cpu"


def test_a_disk_that_is_fuller_than_allowed_stops_work(tmp_path, small_job, monkeypatch):
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "state").write_bytes(b"0" * 2000)
    path = tmp_path / POLICY
    guard = PolicyGuard(path, (tmp_path / "private",))
    path.write_text(yaml.safe_dump(allowing({"limits": {"disk_gb": 0.000002}})))
    guard.admit(small_job)
    (tmp_path / "private" / "more").write_bytes(b"0")
    with pytest.raises(PolicyError, match=r"limits\.disk_gb"):
        guard.admit(small_job)
    path.write_text(yaml.safe_dump(allowing({"limits": {"free_gb": 5}})))
    monkeypatch.setattr(guards.shutil, "disk_usage", lambda _: SimpleNamespace(free=4_900_000_000))
    with pytest.raises(PolicyError, match=r"4\.9 GB are free"):
        guard.admit(small_job)


def test_no_start_and_no_new_kits_overwrite_it(kit, kits, small_job, write):
    write(privacy={"min_count": 5})
    own = (kit.path / POLICY).read_bytes()
    write_site_files(kit.path, kit.facts)
    open_gateway(kit, pack(small_job), "skin-1").close()
    assert (kit.path / POLICY).read_bytes() == own
    theirs = kits / "south" / POLICY
    theirs.write_bytes(own)
    provision(read_federation(kits / "south" / "federation.yaml"), kits.parent, kits)
    assert theirs.read_bytes() == own
    theirs.unlink()
    assert (kit.path / POLICY).stat().st_mode & 0o077 == 0


def test_check_says_what_the_policy_says_of_a_job_and_what_leaves(
    kit, small_job, write, tmp_path, monkeypatch
):
    monkeypatch.setattr("clients.node.check.SECONDS", 0.2)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(small_job.resolved()))

    def found():
        run = ["check", "--kit", str(kit.path), "--job", str(tmp_path / "job.yaml"), "--json"]
        return {each["about"]: each for each in json.loads(CliRunner().invoke(app, run).output)}

    (kit.path / POLICY).unlink()
    told = found()
    assert told["policy"]["text"].startswith("no file, so these values hold")
    assert '"min_count":10,"masked_counts":true' in told["policy"]["text"]
    assert not told["policy privacy.min_count"]["fit"]
    write(
        privacy={"min_count": 5, "masked_counts": True},
        limits={"threads": 2},
        hours=[{"begin": "19:00", "end": "06:00"}],
    )
    told = found()
    assert "requests are answered" in told["policy hours"]["text"]
    assert "2 threads at most" in told["policy limits"]["text"]
    assert not told["policy privacy.min_count"]["fit"]
    assert told["policy privacy.masked_counts"]["fit"]  # three hospitals are in the kit's federation
    assert "weights leave PLAIN, of this hospital by itself" in told["job"]["text"]
    assert "counts of answers leave as sums under masks" in told["job"]["text"]
    assert small_job.digest in told["job"]["text"]
    assert "who sees weights" in told
    write(privacy={"min_cuont": 5})
    assert not found()["policy"]["fit"]
