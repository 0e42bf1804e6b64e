"""A canary: which requests it answers, which are compared, and that no caller gets an error by it."""

import hashlib
import hmac
import threading
import time
import uuid
from collections import Counter
from dataclasses import replace

import anyio
import numpy as np
import pytest
from PIL import Image

from registry.bundle.diagnose import ask
from registry.bundle.model import Graph
from registry.bundle.pictures.rule import PictureRule, decode_picture
from registry.registry import Registry
from registry.releases.rollout import Share
from serving.http import diagnoses
from serving.inference.predictor import build_diagnosis, decode
from serving.metrics import Metrics
from serving.protocol.parameters import Parameters, select_subgroup, subgroup_of
from serving.releases import current_release, rollout
from serving.releases.current_release import CurrentRelease
from serving.releases.rollout import AnsweredPicture, Rollout, place_of, shadow_table
from serving.settings import ServeSettings
from tests.serving.conftest import encode
from tests.serving.releases.conftest import MODEL, version

KEY = bytes(range(32))
OTHER = np.array([[0, 0.02, 0], [0.02, 0, 0], [0, 0, 0.02]])
"""What a candidate sees in the three colours: red is another class than for production."""


def within(successes, n, share):
    """Whether so many of n are as a share gives them, but for once in some 16,000 times (4 sigma)."""
    return abs(successes - n * share) <= 4 * (n * share * (1 - share)) ** 0.5 + 1


def pictures(n):
    """So many small pictures, no two the same."""
    rng = np.random.default_rng(0)
    return [encode(Image.fromarray(rng.integers(0, 256, (32, 24, 3), np.uint8)), "PNG") for _ in range(n)]


def answered_by(service, sent, **options):
    """The versions that answer these pictures."""
    return [version(service.diagnose(one, "image/png", **options)) for one in sent]


def counted(service, name):
    """The samples of a metric by its labels' values, in their order."""
    found = {}
    for line in service.client.get("/metrics").text.splitlines():
        if line.startswith(f"{name}{{"):
            labels, value = line.removeprefix(f"{name}{{").rsplit("} ", 1)
            found[tuple(one.split('"')[1] for one in labels.split(","))] = float(value)
    return found


def requests(service):
    """How many requests a canary might have answered, by who did."""
    return {labels[0]: n for labels, n in counted(service, "dermfed_canary_requests_total").items()}


def wait_for_canary(service, *shares):
    service.eventually(lambda: set(counted(service, "dermfed_canary_share").values()) == set(shares))


@pytest.fixture
def versions(registry, promote, bundle, dark):
    """Production is 1 for all and 2 for dark skin; 3 is for all, and 4 for dark skin."""
    promote(registry, bundle(), bundle(dark))
    registry.add([bundle(seed=1), bundle(dark, seed=1)])
    return registry


def promote_canary(registry, *numbers, share=None, subgroup=None, mirror=False, without=()):
    """Promotes versions as a canary; without a share in full."""
    to = {"to": "production", "override_gates": True, "reason": "a test", "without": without}
    registry.promote(MODEL, list(numbers), **to, share=share and Share(share, subgroup, mirror=mirror))


# Which requests it answers


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5, 0.9])
def test_the_share_is_right_and_a_picture_keeps_its_place(share):
    sent = [number.to_bytes(8) for number in range(20_000)]
    places = [place_of(KEY, one) for one in sent]
    assert within(sum(place < share for place in places), len(places), share)
    assert places == [place_of(KEY, one) for one in sent]
    assert min(places) >= 0
    assert max(places) < 1


def naive_place(key, content):
    """What a hash without a key would be: any caller can compute it."""
    return int.from_bytes(hashlib.sha256(content).digest()[:8]) / 2**64


@pytest.mark.parametrize(("place", "held"), [(naive_place, False), (place_of, True)], ids=["naive", "keyed"])
def test_who_knows_all_but_the_key_cannot_choose_the_version(place, held):
    """The attacker sends only what lies within the share by every hash that they can compute."""
    public = [b"", MODEL.encode(), b"production", b"sha256:" + b"0" * 64, b"dermfed canary 1: "]
    guesses = [naive_place, *(lambda _, one, key=key: place_of(key, one) for key in public)]
    guesses += [
        lambda _, one, key=key: int.from_bytes(hmac.digest(key, one, "sha256")[:8]) / 2**64 for key in public
    ]
    for guess in guesses:
        chosen = [one for n in range(8000) if guess(None, one := n.to_bytes(8)) < 0.05]
        got = sum(place(KEY, one) < 0.05 for one in chosen)
        if not held and guess is naive_place:
            assert got == len(chosen)  # the control: every one of them is answered by the canary
        else:
            assert within(got, len(chosen), 0.05)


@pytest.mark.long
def test_it_answers_its_share_and_the_same_picture_alike_also_after_a_restart(versions, serve):
    promote_canary(versions, 3, share=0.3)
    sent = pictures(150)
    with serve() as service:
        wait_for_canary(service, 0.3)
        got = answered_by(service, sent)
        assert within(got.count(3), len(got), 0.3)
        ((key, release),) = {(one.key, one.release.id) for one in versions.canaries(MODEL).values()}
        assert got == [3 if place_of(key, one) < 0.3 else 1 for one in sent]
        # Another id, form, field or scale of the same picture, as a caller may choose them: no other version.
        for one, answered in zip(sent[:20], got, strict=False):
            headers = {"X-Request-Id": "a" * 32, "Idempotency-Key": hashlib.sha256(one).hexdigest()}
            assert answered_by(service, [one], headers=headers) == [answered]
            form = service.form({"top": "2", "skin_tone": "I"}, {"image": ("another.png", one, "image/png")})
            assert version(form) == answered
        by = requests(service)
        assert by["canary"] + by["production"] == 150 + 40
        assert within(by["canary"], 190, 0.3)
        assert {labels[2] for labels in counted(service, "dermfed_canary_requests_total")} == {str(release)}
        assert {labels[3] for labels in counted(service, "dermfed_decisions_total")} >= {"1", "3"}
    with serve() as service:
        assert answered_by(service, sent[:40]) == got[:40]
        promote_canary(versions, 3, share=0.7)
        wait_for_canary(service, 0.7)
        raised = answered_by(service, sent[:40])
        assert all(now == 3 for now, before in zip(raised, got, strict=False) if before == 3)
        assert raised.count(3) > got[:40].count(3)


def test_one_of_a_subgroup_answers_its_share_of_them_and_of_no_others(versions, serve):
    promote_canary(versions, 3, 4, share=0.5, subgroup="dark")
    declared = {
        "V": {"skin_tone": "V"},
        "1": {"skin_tone": "1"},
        "none": {},
        "other": {"skin_tone": "9", "skin_tone_scale": "monk"},
    }
    sent = pictures(24)
    with serve() as service:
        wait_for_canary(service, 0.5)
        by_tone = {name: set(answered_by(service, sent, params=tone)) for name, tone in declared.items()}
        assert by_tone == {"V": {2, 4}, "1": {1}, "none": {1}, "other": {1}}


def test_it_answers_beside_the_release_that_it_was_compared_with_alone(versions, follow):
    """Where that has not been loaded, what answers in its place is none that the gates compared."""
    promote_canary(versions, 3, share=0.999)
    metrics = Metrics()
    current = follow(versions, metrics)
    canaries = Rollout(ServeSettings(), metrics, current)
    production, content = current.served.releases[MODEL], pictures(1)

    def chosen(served):
        asked = canaries.choose, served, production, content, Parameters()
        return anyio.run(*asked).release.versions[0].number

    try:
        assert chosen(current.served) == 3
        (canary,) = current.served.canaries.values()
        other = replace(canary, beside=canary.beside + 7)
        assert chosen(replace(current.served, canaries={MODEL: other})) == 1
        assert chosen(replace(current.served, canaries={})) == 1

        # What has ended is held while production is loading, which may be what it has become.
        promote_canary(versions, 3)
        (release,) = current.poll()
        assert (list(current.served.candidates), current.served.canaries) == ([MODEL], {})
        current.load(release)
        assert current.poll() == []
        assert current.served.candidates == {}
    finally:
        canaries.close()


# What is in its way


@pytest.mark.parametrize(
    ("mirror", "instead"),
    [
        pytest.param(False, "production answers in its place", id="one that answers"),
        pytest.param(True, "nothing is compared", id="one that is compared"),
    ],
)
def test_one_that_cannot_be_loaded_takes_no_answer_and_is_an_issue(
    versions, places, serve, monkeypatch, mirror, instead
):
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 0.2)
    promote_canary(versions, 3, share=0.5, mirror=mirror)
    damaged = versions.version(MODEL, 3).digest
    places.spoil(damaged)
    sent, alias = pictures(40), "production/canary"
    with serve() as service:
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "degraded")
        assert set(answered_by(service, sent)) == {1}
        ready = service.client.get("/readyz")
        assert ready.status_code == 200
        (issue,) = ready.json()["troubles"]
        assert issue.startswith(f"canary: release 2 of {MODEL}: it cannot be served, and {instead}")
        by = requests(service)
        assert set(by) == (set() if mirror else {"not-loaded", "production"})
        assert sum(by.values()) == (0 if mirror else 40)
        assert counted(service, "dermfed_troubles")[alias, MODEL] == 1
        assert counted(service, "dermfed_release_loads_total")[alias, MODEL, "failed"] >= 1
        assert (alias, MODEL, "2") not in counted(service, "dermfed_release_workers")
        assert "canary" not in service.client.get("/v1/models").json()["models"][0]
        if not mirror:
            assert "It answers nobody in this worker" in service.client.get("/operator").text
        places.spoil(damaged)  # and back: it is tried again
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "ready")
        assert (3 in answered_by(service, sent)) is not mirror


def test_where_it_fails_with_a_picture_production_answers(versions, serve, monkeypatch):
    promote_canary(versions, 3, share=0.5)
    build = diagnoses.build_diagnosis

    def fails(loaded, *arguments, **options):
        if loaded.version.number == 3:
            raise RuntimeError("a canary that cannot")
        return build(loaded, *arguments, **options)

    monkeypatch.setattr(diagnoses, "build_diagnosis", fails)
    with serve() as service:
        wait_for_canary(service, 0.5)
        assert set(answered_by(service, pictures(40))) == {1}
        by = requests(service)
        assert set(by) == {"failed", "production"}
        assert by["failed"] > 5
        # The control: production that fails is an error.
        monkeypatch.setattr(diagnoses, "build_diagnosis", lambda *_, **__: 1 / 0)
        assert service.diagnose().status_code == 500


def test_what_is_no_picture_is_refused_once(versions, serve, problem):
    promote_canary(versions, 3, share=0.999)
    with serve() as service:
        wait_for_canary(service, 0.999)
        problem(service.diagnose(b"no picture"), 400)
        assert "failed" not in requests(service)


def test_a_withdrawn_one_and_one_of_a_registry_that_cannot_be_read_answer_nothing(
    versions, serve, monkeypatch
):
    promote_canary(versions, 3, share=0.5)
    sent = pictures(30)
    with serve() as service:
        wait_for_canary(service, 0.5)
        assert set(answered_by(service, sent)) == {1, 3}

        def broken(*_):
            raise OSError("no disk")

        with monkeypatch.context() as patch:
            patch.setattr(Registry, "standing", broken)
            service.eventually(lambda: service.client.get("/readyz").json()["status"] == "degraded")
            assert set(answered_by(service, sent)) == {1}
        service.eventually(lambda: 3 in answered_by(service, sent))
        versions.withdraw(MODEL, [3], reason="misses melanoma")
        wait_for_canary(service)
        assert set(answered_by(service, sent)) == {1}


def test_in_full_it_is_production_and_is_not_loaded_again(versions, serve, monkeypatch):
    promote_canary(versions, 3, share=0.5)
    read, fetch = [], Registry.bundle
    monkeypatch.setattr(Registry, "bundle", lambda self, one: read.append(one.number) or fetch(self, one))
    with serve() as service:
        wait_for_canary(service, 0.5)
        assert sorted(read) == [1, 2, 3]  # the version for dark skin is in both, and loaded once
        promote_canary(versions, 3)
        (release,) = versions.current().values()
        expected = {("production", MODEL, str(release.id)): 1}
        service.eventually(lambda: counted(service, "dermfed_release_workers") == expected)
        assert set(answered_by(service, pictures(20))) == {3}
        assert sorted(read) == [1, 2, 3]


# One that is compared


class Pair:
    """Production and its shadow, without a service around them."""

    def __init__(self, source):
        self.settings, self.metrics = ServeSettings(), Metrics()
        self.current = CurrentRelease(source, self.settings, self.metrics)
        self.rollout = Rollout(self.settings, self.metrics, self.current)

    @property
    def whole(self):
        """Comparisons of which everything is counted: their number is counted last."""
        return sum(self.counted("dermfed_shadow_comparisons_total").values())

    def close(self):
        self.rollout.close()
        self.current.close()

    def answered(self, content, tone=None):
        """What production answers, as the service hands it over."""
        release = self.current.served.releases[MODEL]
        routed = select_subgroup(release.manifests, tone, "fitzpatrick")
        loaded, parameters = release.versions[routed.subgroup], Parameters(skin_tone=tone)
        decoded = decode(loaded, [(content, None)], self.settings.max_pixels)
        outputs, id_ = ask(loaded.graph, [decoded.question]), str(uuid.uuid4())
        made = build_diagnosis(loaded, decoded, outputs, parameters, routed.route, request_id=id_)
        group = subgroup_of(release.subgroups, release.versions["global"].manifest, tone, "fitzpatrick")
        return AnsweredPicture(loaded, group, parameters, decoded, made)

    def submit(self, answered):
        anyio.run(self.rollout.compare, answered)

    def counted(self, name):
        """The samples of a name, by their labels; what never happened is left out."""
        return {tuple(labels.values()): value for labels, value in self.metrics.totals().named(name) if value}

    def eventually(self, holds, seconds=60):
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, "it never came to hold"
            time.sleep(0.01)

    def compare(self, *answered):
        """Offers these one after the other, and waits until each is compared."""
        for one in answered:
            before = self.whole
            self.submit(one)
            self.eventually(lambda before=before: self.whole == before + 1)

    def passes_over(self, answered):
        """Offers one, and says whether it was not even queued."""
        self.submit(answered)
        return not self.rollout._waiting.qsize() and not self.counted("dermfed_shadow_comparisons_total")

    def table(self):
        candidates = [loaded for _, loaded in self.rollout.mirrored().values()]
        found = shadow_table(self.metrics.totals(), self.current.served.releases.values(), candidates)
        return {(row.version, row.candidate, row.subgroup): row for row in found}


@pytest.fixture
def pair(registry):
    """Adds bundles, mirrors them, and starts production with them over the registry."""
    started = []

    def start(*bundles, share=1.0, **options):
        numbers = [one.number for one in registry.add(bundles)]
        promote_canary(registry, *numbers, share=share, mirror=True, **options)
        started.append(one := Pair(registry))
        one.eventually(one.rollout.mirrored)
        return one

    yield start
    for one in started:
        one.close()


def test_production_and_the_candidate_are_compared_by_subgroup(
    pair, registry, promote, bundle, light, picture
):
    production = {"global": bundle(), "light": bundle(light)}
    promote(registry, *production.values())
    candidate = bundle(weights=OTHER, seed=1)
    both = pair(candidate, without=["light"])
    colours = [(250, 20, 20), (240, 20, 20), (20, 250, 20), (20, 20, 250), (90, 90, 90), (120, 90, 60)]
    contents = [picture("PNG", colour=colour) for colour in colours]
    both.compare(*(both.answered(content, tone) for content in contents for tone in (None, "1", "5")))

    def probabilities(of):
        pixels = np.stack([decode_picture(content, of.manifest.picture) for content in contents])
        return Graph(of.model).run(pixels).probabilities.astype(float)

    table = both.table()
    after = probabilities(candidate)
    answering = {"undeclared": (1, "global"), "light": (2, "light"), "fitzpatrick 5": (1, "global")}
    for group, (number, name) in answering.items():
        before, row = probabilities(production[name]), table[number, 3, group]
        assert row.n == 6
        assert row.agreement == np.mean(before.argmax(axis=1) == after.argmax(axis=1))
        assert row.interval[0] < row.agreement < row.interval[1]
        # In the bundles of these tests melanoma is concluded from 0.562 on, and 0.2 is in the set.
        said = [np.where(one[:, 0] >= 0.5622, "report", "refer").tolist() for one in (before, after)]
        assert row.decisions == Counter(zip(*said, strict=True))
        assert row.changed == sum(one != other for one, other in zip(*said, strict=True))
        assert row.malignancy["production"] == pytest.approx(before[:, 0].mean(), abs=1e-6)
        assert row.malignancy["candidate"] == pytest.approx(after[:, 0].mean(), abs=1e-6)
        assert row.malignancy_difference == pytest.approx((after - before)[:, 0].mean(), abs=1e-6)
        of_sets = [(one >= 0.2).sum(axis=1).mean() for one in (before, after)]
        assert [row.set_size["production"], row.set_size["candidate"]] == pytest.approx(of_sets)
    whole = table[1, 3, "all"]
    parts = [table[1, 3, group] for group in ("undeclared", "fitzpatrick 5")]
    assert whole.n == 12
    assert whole.agreement == pytest.approx(np.mean([part.agreement for part in parts]))
    assert whole.decisions == Counter(parts[0].decisions) + Counter(parts[1].decisions)
    assert whole.latency_ratio > 0
    of_global = {(1, 3, group) for group in ("all", "undeclared", "fitzpatrick 5")}
    assert set(table) == {*of_global, (2, 3, "all"), (2, 3, "light")}


def test_a_candidate_with_another_rule_decodes_by_its_own(pair, registry, promote, bundle):
    promote(registry, bundle())
    cropped = bundle(picture=PictureRule(size=8, fit="crop"))
    both = pair(cropped)
    wide = Image.new("RGB", (80, 10), (20, 200, 20))
    wide.paste((250, 60, 20), (30, 0, 50, 10))  # what a crop leaves over
    content = encode(wide, "PNG")
    both.compare(both.answered(content))
    pixels = decode_picture(content, cropped.manifest.picture)[None]
    expected = float(Graph(cropped.model).run(pixels).probabilities[0, 0])
    row = both.table()[1, 2, "all"]
    assert row.malignancy["candidate"] == pytest.approx(expected, abs=1e-6)
    assert row.malignancy["candidate"] != pytest.approx(row.malignancy["production"], abs=1e-3)


def test_nothing_waits_for_a_comparison(pair, registry, promote, bundle, picture, monkeypatch):
    promote(registry, bundle())
    both = pair(bundle(seed=1))
    go, at_it, compare = threading.Event(), threading.Event(), both.rollout._compare

    def slow(*arguments, **options):
        at_it.set()
        assert go.wait(120)
        compare(*arguments, **options)

    monkeypatch.setattr(both.rollout, "_compare", slow)
    answered = both.answered(picture())
    both.submit(answered)
    assert at_it.wait(60)
    for _ in range(rollout.WAITING + 3):
        both.submit(answered)
    busy = (MODEL, "busy")
    assert both.counted("dermfed_shadow_left_out_total") == {busy: 3}
    go.set()
    both.eventually(lambda: both.whole == rollout.WAITING + 1)
    both.metrics.waiting(1)
    both.submit(answered)
    assert both.counted("dermfed_shadow_left_out_total") == {busy: 4}
    both.metrics.waiting(0)
    both.compare(answered)


def test_a_candidate_that_fails_on_a_picture_is_counted(
    pair, registry, promote, bundle, picture, monkeypatch
):
    promote(registry, bundle())
    both = pair(bundle(seed=1))
    answered = both.answered(picture())

    def fail(graph, images):
        raise MemoryError("too much")

    with monkeypatch.context() as patch:
        patch.setattr(Graph, "run", fail)
        both.submit(answered)
        both.eventually(lambda: both.counted("dermfed_shadow_left_out_total") == {(MODEL, "failed"): 1})
    both.compare(answered)


@pytest.mark.parametrize(
    ("of_all", "subgroup"),
    [
        pytest.param(False, None, id="that a version answers which is in both"),
        pytest.param(True, "light", id="beyond its subgroup"),
    ],
)
def test_it_is_not_shown_pictures(pair, registry, promote, bundle, light, picture, of_all, subgroup):
    promote(registry, bundle(), bundle(light))
    both = pair(*([bundle(seed=1)] * of_all), bundle(light, seed=1), subgroup=subgroup)
    assert both.passes_over(both.answered(picture(), "5"))
    both.compare(both.answered(picture(), "1"))


def test_a_mirror_is_shown_the_pictures_that_it_would_answer(pair, registry, promote, bundle):
    promote(registry, bundle())
    both = pair(bundle(seed=1), share=0.3)
    (canary, _) = both.rollout.mirrored()[MODEL]
    places = {one: place_of(canary.key, one) for one in pictures(120)}
    shown = [one for one, place in places.items() if place < 0.3]
    assert 20 < len(shown) < 55
    for one, place in places.items():
        if place >= 0.3:
            assert both.passes_over(both.answered(one))
    both.compare(*map(both.answered, shown))


def test_the_service_shows_nothing_of_a_mirror(serve, registry, promote, bundle, picture):
    promote(registry, bundle())
    content = picture("PNG", colour=(250, 20, 20))

    def answer(service):
        found = service.diagnose(content, "image/png")
        assert found.status_code == 200
        return {key: value for key, value in found.json().items() if key not in ("id", "created")}

    compared = "dermfed_shadow_comparisons_total"
    with serve() as plain:
        expected = answer(plain)
        assert counted(plain, compared) == {}
    (candidate,) = registry.add([bundle(weights=OTHER, seed=1)])
    promote_canary(registry, candidate.number, share=1.0, mirror=True)
    with serve() as service:
        loaded = {("production", MODEL, "1"), ("production/canary", MODEL, "2")}
        service.eventually(lambda: set(counted(service, "dermfed_release_workers")) == loaded)
        # The gauge is set a moment before the candidate is shown anything.
        service.eventually(lambda: answer(service) == expected and bool(counted(service, compared)))
        labels = ("2", MODEL, "undeclared", "1")
        assert set(counted(service, compared)) == {labels}
        service.eventually(lambda: counted(service, "dermfed_shadow_agreements_total") == {labels: 0})
        (listed,) = service.client.get("/v1/models").json()["models"]
        assert [one["version"] for one in listed["versions"]] == [1]
        assert "canary" not in listed
        assert counted(service, "dermfed_canary_share") == {}  # it is to answer none
        assert service.client.get("/readyz").json()["status"] == "ready"
