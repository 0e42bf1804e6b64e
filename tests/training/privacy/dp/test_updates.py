"""Noise on updates: clipping, the account, and the report of a run."""

from math import erf, exp, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from clients.store import ClientStore
from tests.closeness import assert_close_in_norm
from training import randomness
from training.errors import DataError, JobError
from training.jobs.client_app import ClientApp
from training.messages import Broadcast, Failure, Update
from training.privacy.noisy_updates import RELEASES, clip, epsilon, privacy_facts, privacy_text, privatise
from training.privacy.settings import PrivacyConfig

GROUPED = {"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"}}
LEVEL = {"clip": 0.5, "noise_multiplier": 1.5, "delta": 1e-4}


def norm(tensors):
    return float(np.sqrt(sum(float(value.double().square().sum()) for value in tensors.values())))


def differences(*values):
    return {f"t{place}": torch.tensor(value, dtype=torch.float64) for place, value in enumerate(values)}


def test_clip_by_hand():
    # ‖(3, 4, 12)‖ = 13.
    assert clip(differences([3.0, 4.0], [[12.0]]), 6.5, "x")["t1"].item() == 6.0
    found = clip(differences([3.0, 4.0]), 5.0, "x")
    assert found["t0"].tolist() == [3.0, 4.0]
    assert clip(differences([0.0, 0.0]), 5.0, "x")["t0"].tolist() == [0.0, 0.0]


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_no_norm_is_above_the_clip_and_the_direction_stays(values, largest):
    before = differences(values)
    after = clip(before, largest, "x")
    assert norm(after) <= largest * (1 + 1e-12)
    assert norm(after) == pytest.approx(min(norm(before), largest))
    torch.testing.assert_close(after["t0"] * norm(before), before["t0"] * norm(after))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_does_not_leave(bad):
    with pytest.raises(DataError, match="north diverged"):
        clip(differences([1.0, bad]), 1.0, "north")


def noised(client, privacy, size=200_000):
    received = {"w": torch.zeros(size), "b": torch.ones(3)}
    trained = {"w": torch.full((size,), 0.01), "b": torch.ones(3)}
    update = Update(
        "north", "0-federate", 1, "fit", "global", trained, {"light": 5}, {"light": 0.7}, {"x": 1.0}
    )
    return privatise(update, received, client, privacy)


@pytest.mark.parametrize("together", [False, True])
def test_noise_has_the_stated_variance(make_client, monkeypatch, together):
    monkeypatch.setattr(randomness, "fresh_key", lambda: bytes(range(32)))
    block = {"client_level": {**LEVEL, "noise": "together" if together else "each"}}
    privacy = PrivacyConfig.model_validate(
        {**block, **({"secure_aggregation": {"fewest": 4}} if together else {})}
    )
    update = noised(make_client(), privacy)
    size = 200_000
    clipped = 0.01 * 0.5 / np.sqrt(size * 0.01**2)
    residual = (update.tensors["w"].double() - clipped).numpy()
    sigma = 1.5 * 0.5 / (2 if together else 1)  # √4 clients share it
    statistic = (residual**2).sum() / sigma**2
    assert stats.chi2.ppf(0.001, size) < statistic < stats.chi2.ppf(0.999, size)


def test_losses_and_other_numbers_stay_and_releases_are_counted(make_client):
    privacy = PrivacyConfig.model_validate({"client_level": LEVEL})
    client = make_client()
    first, second = (noised(client, privacy, 10) for _ in range(2))
    assert (first.losses, first.num_examples) == ({}, {"light": 5})
    assert first.scalars == {RELEASES: 1.0}
    # The very same round again, as after a kill: noise is fresh and counts.
    assert second.scalars == {RELEASES: 2.0}
    assert not torch.equal(first.tensors["w"], second.tensors["w"])


def test_a_run_reports_its_account(run_job, make_job):
    job = make_job(
        model=GROUPED,
        privacy={"client_level": {**LEVEL, "noise_multiplier": 1e-6}},
    )
    ran = run_job(job)
    told = ran.result.summary["privacy"]["client_level"]
    assert told["releases"] == {"north": 2, "south": 2, "west": 2}
    assert told["epsilon"] == pytest.approx(epsilon([(1e-6, 1.0, 2)], 1e-4))
    assert "losses" not in ran.lines[0]["models"]["global"]


def test_without_noise_to_speak_of_a_round_is_the_clipped_mean(run_job, make_job, tmp_path):
    changes = {"rounds": 1, "aggregator": {"name": "fedequal"}}
    huge = {"client_level": {"clip": 1e6, "noise_multiplier": 1e-15}}
    plain = run_job(make_job(model=GROUPED, federate=changes), out=tmp_path / "plain")
    private = run_job(make_job(model=GROUPED, federate=changes, privacy=huge), out=tmp_path / "private")
    whole = [torch.cat([value.flatten() for value in ran.weights().values()]) for ran in (private, plain)]
    assert_close_in_norm(*whole, within=1e-6)


def test_together_under_masks(run_job, make_job):
    job = make_job(
        model=GROUPED,
        federate={"rounds": 1, "aggregator": {"name": "fedequal"}},
        privacy={"client_level": {**LEVEL, "noise": "together"}, "secure_aggregation": {"fewest": 2}},
    )
    told = run_job(job).result.summary["privacy"]
    assert told["client_level"]["against"].startswith("whoever sees sums")
    assert told["secure_aggregation"]["fewest"] == 2


def test_batch_statistics_are_refused_before_the_first_round(run_job, make_job):
    with pytest.raises(JobError, match=r"statistics of batch normalisation.*which noise spoils.*groupnorm"):
        run_job(make_job(privacy={"client_level": LEVEL}))


def test_what_stayed_is_not_uploaded_without_noise(run_job, make_job, dataset, tmp_path):
    staying = {"name": "except", "groups": ["norm"]}
    with pytest.raises(JobError, match="would be uploaded after the last one as they are"):
        run_job(make_job(model=GROUPED, federate={"sync": staying}, privacy={"client_level": LEVEL}))
    job = make_job(model=GROUPED, federate={"rounds": 1, "sync": staying}, privacy={"client_level": LEVEL})
    answer = ClientApp(job, dataset, ClientStore(tmp_path)).answer(
        Broadcast("north", "0-federate", 1, "collect")
    )
    assert isinstance(answer, Failure)
    assert "does not upload what stayed with it" in answer.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"federate": {"aggregator": {"name": "fedauto"}}, "privacy": {"client_level": LEVEL}},
            "reads losses",
        ),
        ({"privacy": {"client_level": {**LEVEL, "noise": "together"}}}, "add privacy.secure_aggregation"),
        (
            {"privacy": {"client_level": {**LEVEL, "noise": "together"}, "secure_aggregation": {}}},
            "needs equal weights",
        ),
    ],
)
def test_what_spoils_an_account_is_refused_when_the_job_is_read(make_job, changes, reason):
    with pytest.raises(ValueError, match=reason):
        make_job(**changes)


def exact_epsilon(noise_multiplier, releases, delta):
    """Balle and Wang 2018, Theorem 8: T Gaussian mechanisms are one of noise z / √T."""

    def normal(x):
        return (1 + erf(x / sqrt(2))) / 2

    def gap(eps):
        mu = sqrt(releases) / noise_multiplier
        return normal(mu / 2 - eps / mu) - exp(eps) * normal(-mu / 2 - eps / mu) - delta

    return brentq(gap, 0, 300)


@pytest.mark.parametrize(("noise", "releases"), [(1.0, 1), (1.0, 20), (5.0, 20), (0.5, 3), (20.0, 100)])
@pytest.mark.parametrize("delta", [1e-5, 1e-3])
def test_epsilon_is_a_near_bound_of_the_exact_one(noise, releases, delta):
    exact = exact_epsilon(noise, releases, delta)
    found = epsilon([(noise, 1.0, releases)], delta)
    assert exact <= found <= 1.25 * exact + 0.05


def test_the_docs_say_what_noise_multipliers_give():
    page = " ".join((Path(__file__).parents[4] / "docs" / "privacy.md").read_text().split())
    one, four, eight = (epsilon([(noise, 1.0, 20)], 1e-5) for noise in (1.0, 4.0, 8.0))
    assert f"ε is {one:.1f} with a noise multiplier of 1, {four:.1f} with 4 and {eight:.1f} with 8" in page


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.05, 200), (0.7, 0.2, 30)])
def test_sampled_steps_against_the_numerical_accountant(noise, rate, steps):
    opacus = pytest.importorskip("opacus.accountants")
    numerical = opacus.PRVAccountant()
    numerical.history = [(noise, rate, steps)]
    prv = numerical.get_epsilon(1e-5)
    found = epsilon([(noise, rate, steps)], 1e-5)
    assert prv - 0.02 <= found <= 1.25 * prv + 0.1


def line(**scalars):
    return {"models": {"global": {"scalars": scalars}}}


def test_what_is_reported_of_a_run():
    config = PrivacyConfig.model_validate(
        {"client_level": {"clip": 1.0, "noise_multiplier": 2.0, "delta": 1e-4}}
    )
    lines = [line(a={RELEASES: 1.0}, b={RELEASES: 1.0}), line(a={RELEASES: 2.0}), line(a={RELEASES: 4.0})]
    told = privacy_facts(config, lines)["client_level"]
    # a was asked again after a kill: its own count says four.
    assert told["releases"] == {"a": 4, "b": 1}
    assert told["epsilon"] == pytest.approx(epsilon([(2.0, 1.0, 4)], 1e-4))
    (sentence, beside) = privacy_text({"client_level": told, "not_covered": "x"})
    assert f"({told['epsilon']:.3g}, 0.0001)-differential privacy" in sentence
    assert beside == "Not covered by this: x."
    assert privacy_facts(PrivacyConfig(), lines) == {}
    assert privacy_text({}) == []


def test_noise_on_counts_is_told_with_what_it_covers_and_what_not():
    config = PrivacyConfig.model_validate({"counts": {"epsilon": 2, "delta": 1e-6, "masks": True}})
    noise = {"test": {"parts_told": 2, "deviation": 5.25, "epsilon_of_own_noise": 4.1}}
    facts = privacy_facts(config, [], noise)
    assert facts["counts"]["by_split"] == noise
    assert "sums of 3 hospitals or more" in facts["counts"]["against"]
    (sentence,) = privacy_text(facts)
    assert "of standard deviation 5.25 in test: (2, 1e-06)-differential privacy" in sentence
    assert "how many pictures of each class and subgroup" in sentence
    level = {"client_level": {"clip": 1.0, "noise_multiplier": 2.0}}
    both = PrivacyConfig.model_validate({"counts": {"epsilon": 2}, **level})
    assert "counts of predictions" in privacy_facts(PrivacyConfig.model_validate(level), [])["not_covered"]
    assert "counts of predictions" not in privacy_facts(both, [], noise)["not_covered"]
