"""Figures of the field in the service: computed by the clock, and shown on the operator's page."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from registry.errors import DatabaseError
from registry.outcomes.alarms import Monitoring
from registry.outcomes.store import Outcome, OutcomeStore
from serving.monitoring import field
from serving.monitoring.field import FieldLooker
from tests.registry.conftest import MODEL
from tests.registry.kept_answers import BEGAN, kept_answer, miss_target, of_version, on, promising
from tests.serving.web.test_pages import HTML, Texts

EMPTY = Monitoring((), ())


class Looks:
    """Keeps the models that were looked at; raises `error` where there is one."""

    def __init__(self):
        self.models, self.error = [], None

    def __call__(self, model):
        self.models.append(model)
        if self.error is not None:
            raise self.error
        return EMPTY, ()


@pytest.fixture
def looks():
    return Looks()


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand; it begins in the middle of ten minutes."""
    found = SimpleNamespace(now=datetime(2026, 3, 1, 12, 5, tzinfo=UTC))
    monkeypatch.setattr(field, "datetime", SimpleNamespace(now=lambda _: found.now))
    return found


@pytest.fixture
def workers(looks, clock):
    """Two processes of one service, as far as looking goes."""
    return [FieldLooker(lambda: ["demo"], looks) for _ in range(2)]


def test_all_workers_compute_at_each_ten_minutes_of_the_clock(workers, looks, clock):
    first, second = workers
    first.look_if_due()
    clock.now += timedelta(minutes=1)
    for one in (*workers, *workers):
        one.look_if_due()
    assert len(looks.models) == 2
    clock.now += timedelta(minutes=4)
    for one in (*workers, *workers):
        one.look_if_due()
    assert len(looks.models) == 4
    assert first.view == second.view


def test_a_database_that_is_down_is_told_and_tried_again(workers, looks, clock, caplog):
    looker = workers[0]
    looker.look_if_due()
    before = clock.now
    looks.error = DatabaseError("it is down")
    for _ in range(3):
        clock.now += timedelta(minutes=10)
        looker.look_if_due()
    assert "it is down" in looker.view.issues[0]
    assert looker.view.looked == before  # when metrics were computed last
    assert caplog.text.count("it is down") == 1
    looks.error = None
    looker.look_if_due()
    assert looker.view.issues  # within the same minute it is not tried again
    clock.now += timedelta(minutes=1)
    looker.look_if_due()
    assert looker.view.issues == ()


@pytest.fixture
def broken(registry, promote, bundle, tmp_path, request):
    """A release that misses its target for dark skin; the address of outcomes, so many of them of naevi."""
    promote(registry, bundle(metrics=promising()))
    url = f"sqlite:///{tmp_path / 'outcomes.db'}"
    quiet = {"malignancy": 0.1, "label": "NV", "in_set": frozenset({"NV"})}
    kept = [kept_answer(BEGAN, answering=of_version(1, MODEL), **quiet) for _ in range(request.param)]
    with OutcomeStore.open(url) as store:
        miss_target(store, 1)
        store.record(kept)
        store.give([Outcome(one.id, "NV", "follow-up", on(50)) for one in kept], "k1", on(50))
    return url


def metrics_of(service):
    service.eventually(lambda: "dermfed_open_alarms" in service.client.get("/metrics").text)
    return service.client.get("/metrics").text


@pytest.mark.parametrize("broken", [14], indirect=True, ids=["of fourteen"])
def test_the_service_finds_an_alarm_and_shows_it(serve, registry, broken):
    with serve(outcomes_url=broken) as service:
        metrics = metrics_of(service)
        page = Texts(service.client.get("/operator", headers=HTML).text).text
    who = f'model="{MODEL}",subgroup="dark",version="1"'
    assert f'dermfed_open_alarms{{model="{MODEL}"}} 1.0' in metrics
    seen = [line for line in metrics.splitlines() if line.startswith("dermfed_field_sensitivity{")]
    assert len(seen) == 6  # seen and corrected, each with its interval
    (corrected,) = (line for line in seen if 'end="point",figure="corrected"' in line)
    expected = 150 / (150 + 150 * 164 / 160)  # four are not final
    assert float(corrected.split()[-1]) == pytest.approx(expected)
    assert f"dermfed_field_outcomes{{{who}}} 310.0" in metrics  # 314 are known: whole groups of ten alone
    assert f"dermfed_field_malignant_outcomes{{{who}}} 300.0" in metrics
    assert f"dermfed_field_answers{{{who}}} 314.0" in metrics
    assert "version 1 misses its target for dark, a sensitivity of 0.90 or more" in page
    assert "Something is wrong" in page
    assert page.index("What became of the patients") < page.index("Versions that answer")
    assert registry.alarms(MODEL) == ()  # a service writes nothing there


@pytest.mark.parametrize("broken", [9], indirect=True, ids=["of nine"])
def test_of_few_benign_ones_no_figure_leaves_and_the_alarm_does(serve, broken):
    with serve(outcomes_url=broken) as service:
        metrics = metrics_of(service)
    assert f'dermfed_open_alarms{{model="{MODEL}"}} 1.0' in metrics
    assert 'end="point"' not in metrics
    assert "dermfed_field_malignant_outcomes{" not in metrics
    assert "evidence" not in metrics
