"""A candidate beside production: what is compared, by whose rule, and that no caller notices."""

import io
import threading
import time
import uuid
from collections import Counter

import anyio
import numpy as np
import pytest
from PIL import Image

from registry.bundle.diagnose import ask
from registry.bundle.model import Graph
from registry.bundle.pictures.rule import PictureRule, decode_picture
from registry.releases.rollout import Share
from serving.inference.predictor import build_diagnosis, decode
from serving.metrics import Metrics
from serving.protocol.parameters import Parameters, select_subgroup, subgroup_of
from serving.releases import current_release, rollout
from serving.releases.current_release import CurrentRelease
from serving.releases.rollout import AnsweredPicture, Rollout, place_of, shadow_table
from serving.settings import ServeSettings
from tests.serving.conftest import encode

MODEL = "skin-lesion"
OTHER = np.array([[0, 0.02, 0], [0.02, 0, 0], [0, 0, 0.02]])
"""What the candidate sees in the three colours: red is another class than for production."""


def stage(registry, *bundles, subgroup=None, without=(), share=1.0):
    """Makes these the mirrored canary."""
    numbers = [one.number for one in registry.add(bundles)]
    told = {"to": "production", "reason": "test", "override_gates": True, "without": without}
    registry.promote(MODEL, numbers, **told, share=Share(share, subgroup, mirror=True))


def eventually(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)


class Pair:
    """Production and its shadow, without a service around them."""

    def __init__(self, source, **settings):
        self.settings = ServeSettings(**settings)
        self.metrics = Metrics()
        self.current = CurrentRelease(source, self.settings, self.metrics)
        self.rollout = Rollout(self.settings, self.metrics, self.current)
        counters = self.rollout._comparisons
        self.whole, compared = 0, counters.compared  # comparisons of which everything is counted

        def count(*arguments):
            compared(*arguments)
            self.whole += 1

        counters.compared = count

    def close(self):
        self.rollout.close()
        self.current.close()

    def answered(self, content, tone=None):
        """What production answers, as the service hands it over."""
        release = self.current.served.releases[MODEL]
        routed = select_subgroup(release.manifests, tone, "fitzpatrick")
        loaded, parameters = release.versions[routed.subgroup], Parameters(skin_tone=tone)
        decoded = decode(loaded, [content], self.settings.max_pixels)
        outputs = ask(loaded.graph, [decoded.question])
        made = build_diagnosis(
            loaded, decoded, outputs, parameters, routed.route, request_id=str(uuid.uuid4())
        )
        group = subgroup_of(release.subgroups, release.versions["global"].manifest, tone, "fitzpatrick")
        return AnsweredPicture(loaded, group, parameters, [content], decoded, made)

    def submit(self, answered):
        anyio.run(self.rollout.compare, answered)

    def counted(self, name):
        """The samples of a name, by their labels; what never happened is left out."""
        found = self.metrics.totals().named(name)
        return {tuple(labels.values()): value for labels, value in found if value}

    def compared(self):
        return round(sum(self.counted("dermfed_shadow_comparisons_total").values()))

    def compare(self, *answered):
        """Offers these one after the other, and waits until each is compared."""
        for one in answered:
            before = self.whole
            self.submit(one)
            eventually(lambda before=before: self.whole == before + 1)

    def table(self):
        found = shadow_table(
            self.metrics.totals(),
            self.current.served.releases.values(),
            [loaded for _, loaded in self.rollout.mirrored().values()],
        )
        return {(row.version, row.candidate, row.subgroup): row for row in found}


@pytest.fixture
def pair(registry, request):
    """Starts production and its shadow over the registry."""
    started = []

    def start(source=None, *, candidate=True, **settings):
        one = Pair(source or registry, **settings)
        started.append(one)
        if candidate:
            eventually(one.rollout.mirrored)
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
    stage(registry, candidate, without=["light"])
    colours = [(250, 20, 20), (20, 250, 20), (20, 20, 250), (90, 90, 90), (120, 90, 60)]
    both = pair()
    contents = [picture("PNG", colour=colour) for colour in colours]
    both.compare(*(both.answered(content, tone) for content in contents for tone in (None, "1", "5")))

    def shares(of, content):
        pixels = decode_picture(content, of.manifest.picture)[None]
        return Graph(of.model).run(pixels).probabilities[0].astype(float)

    table = both.table()
    answering = {"undeclared": (1, "global"), "light": (2, "light"), "fitzpatrick 5": (1, "global")}
    for group, (number, name) in answering.items():
        before = np.array([shares(production[name], content) for content in contents])
        after = np.array([shares(candidate, content) for content in contents])
        row = table[number, 3, group]
        assert row.n == 5
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
    everybody = table[1, 3, "all"]
    parts = [table[1, 3, group] for group in ("undeclared", "fitzpatrick 5")]
    assert everybody.n == 10
    assert everybody.agreement == pytest.approx(np.mean([part.agreement for part in parts]))
    assert everybody.decisions == Counter(parts[0].decisions) + Counter(parts[1].decisions)
    assert everybody.latency_ratio > 0
    assert set(table) == {
        (1, 3, "all"),
        (1, 3, "undeclared"),
        (1, 3, "fitzpatrick 5"),
        (2, 3, "all"),
        (2, 3, "light"),
    }


def test_a_candidate_with_another_rule_decodes_by_its_own(pair, registry, promote, bundle):
    promote(registry, bundle())
    cropped = bundle(picture=PictureRule(size=8, fit="crop"))
    stage(registry, cropped)
    both = pair()
    lone_graph = Image.new("RGB", (80, 10), (20, 200, 20))
    lone_graph.paste((250, 60, 20), (30, 0, 50, 10))  # what a crop leaves over
    file = io.BytesIO()
    lone_graph.save(file, "PNG")
    content = file.getvalue()
    both.compare(both.answered(content))
    shares = (
        Graph(cropped.model).run(decode_picture(content, cropped.manifest.picture)[None]).probabilities[0]
    )
    row = both.table()[1, 2, "all"]
    assert row.malignancy["candidate"] == pytest.approx(float(shares[0]), abs=1e-6)
    assert row.malignancy["candidate"] != pytest.approx(row.malignancy["production"], abs=1e-3)


def test_nothing_waits_for_a_comparison(pair, registry, promote, bundle, picture, monkeypatch):
    promote(registry, bundle())
    stage(registry, bundle(seed=1))
    both = pair()
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
    eventually(lambda: both.whole == rollout.WAITING + 1)
    assert both.compared() == rollout.WAITING + 1
    both.metrics.waiting(1)
    both.submit(answered)
    assert both.counted("dermfed_shadow_left_out_total") == {busy: 4}
    both.metrics.waiting(0)
    both.compare(answered)


def test_a_candidate_that_fails_on_a_picture_is_counted(
    pair, registry, promote, bundle, picture, monkeypatch
):
    promote(registry, bundle())
    stage(registry, bundle(seed=1))
    both = pair()
    answered = both.answered(picture())
    run = Graph.run

    def fail(graph, images):
        raise MemoryError("too much")

    monkeypatch.setattr(Graph, "run", fail)
    both.submit(answered)
    eventually(lambda: both.counted("dermfed_shadow_left_out_total") == {(MODEL, "failed"): 1})
    monkeypatch.setattr(Graph, "run", run)
    both.compare(answered)


def test_what_is_in_production_already_and_what_has_no_candidate_is_not_compared(
    pair, registry, promote, bundle, light, picture
):
    promote(registry, bundle(), bundle(light))
    stage(registry, bundle(light, seed=1))
    promote(registry, bundle(model="nails"))
    both = pair()
    both.submit(both.answered(picture(), "5"))  # by the version for everybody, which both have
    assert both.rollout._waiting.qsize() == 0
    assert both.compared() == 0
    assert "nails" not in both.rollout.mirrored()
    own, (_, beside) = both.current.served.releases[MODEL], both.rollout.mirrored()[MODEL]
    assert own.versions["global"] is beside.versions["global"]  # in memory once
    both.compare(both.answered(picture(), "1"))


def test_a_candidate_for_a_subgroup_is_shown_its_pictures_alone(
    pair, registry, promote, bundle, light, picture
):
    promote(registry, bundle(), bundle(light))
    stage(registry, bundle(seed=1), bundle(light, seed=1), subgroup="light")
    both = pair()
    both.submit(both.answered(picture(), "5"))
    assert both.rollout._waiting.qsize() == 0
    both.compare(both.answered(picture(), "1"))


def test_a_mirror_is_shown_the_pictures_within_its_share(pair, registry, promote, bundle):
    """The same that it would answer: the share is realised, and a picture that is sent again is like it."""
    promote(registry, bundle())
    stage(registry, bundle(seed=1), share=0.3)
    both = pair()
    (canary, _) = both.rollout.mirrored()[MODEL]
    contents = [encode(Image.new("RGB", (32, 24), (n % 256, n // 2, 255 - n)), "PNG") for n in range(120)]
    within = [one for one in contents if place_of(canary.key, one) < 0.3]
    assert 20 < len(within) < 55
    both.compare(*map(both.answered, within))
    for one in contents:
        if one not in within:
            both.submit(both.answered(one))
    assert both.rollout._waiting.qsize() == 0
    assert both.compared() == len(within)


def test_the_service_shows_nothing_of_it(serve, registry, promote, bundle, picture):
    promote(registry, bundle())
    content = picture("PNG", colour=(250, 20, 20))

    def without_id(answer):
        assert answer.status_code == 200
        return {key: value for key, value in answer.json().items() if key not in ("id", "created")}

    with serve() as plain:
        expected = without_id(plain.diagnose(content, "image/png"))
        assert "dermfed_shadow_comparisons_total{" not in plain.client.get("/metrics").text
    stage(registry, bundle(weights=OTHER, seed=1))
    with serve() as service:

        def told():
            return service.client.get("/metrics").text

        service.eventually(
            lambda: (
                'dermfed_release_workers{alias="production/canary",model="skin-lesion",release="2"} 1.0'
                in told()
            )
        )
        assert without_id(service.diagnose(content, "image/png")) == expected
        labels = 'candidate="2",model="skin-lesion",subgroup="undeclared",version="1"'
        # The gauge is set a moment before the candidate is shown anything.
        service.eventually(
            lambda: (
                without_id(service.diagnose(content, "image/png")) == expected
                and f"dermfed_shadow_comparisons_total{{{labels}}}" in told()
            )
        )
        service.eventually(lambda: f"dermfed_shadow_agreements_total{{{labels}}} 0.0" in told())
        listed = service.client.get("/v1/models").json()["models"]
        assert [one["version"] for model in listed for one in model["versions"]] == [1]
        assert "canary" not in listed[0]
        assert "dermfed_canary_share{" not in told()  # it is to answer none
        assert service.client.get("/readyz").json()["status"] == "ready"


def test_a_candidate_that_does_not_load_is_a_trouble_and_no_more(
    serve, places, registry, promote, bundle, picture, monkeypatch
):
    monkeypatch.setattr(current_release, "RETRY_SECONDS", 1e9)
    promote(registry, bundle())
    candidate = bundle(seed=1, weights=OTHER)
    stage(registry, candidate)
    places.spoil(candidate.manifest.file.sha256)
    with serve() as service:
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "degraded")
        ready = service.client.get("/readyz")
        assert ready.status_code == 200
        (health_issue,) = ready.json()["troubles"]
        assert health_issue.startswith(
            "canary: release 2 of skin-lesion: it cannot be served, and nothing is compared"
        )
        assert service.diagnose(picture()).json()["model"]["version"] == 1
        labels = 'alias="production/canary",model="skin-lesion"'
        for counted in (f'loads_total{{{labels},outcome="failed"}} 1.0', f"troubles{{{labels}}} 1.0"):
            service.eventually(lambda one=counted: one in service.client.get("/metrics").text)
