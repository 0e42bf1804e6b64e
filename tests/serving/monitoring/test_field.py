"""Figures of the field in the service: computed in one process, told by all, and on the operator's page."""

from datetime import timedelta

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
    """Counts looks, and says what it is told to."""

    def __init__(self):
        self.models = []
        self.error = None

    def __call__(self, model):
        self.models.append(model)
        if self.error is not None:
            raise self.error
        return EMPTY, ()


@pytest.fixture
def looks():
    return Looks()


@pytest.fixture
def workers(tmp_path, looks):
    """Three processes of one service, as far as looking goes."""
    return [FieldLooker(tmp_path / "shared", lambda: ["demo"], looks) for _ in range(3)]


def test_one_process_computes_and_all_tell(workers, looks):
    for one in (*workers, *workers):
        one.look_if_due()
    assert looks.models == ["demo"]
    assert len({one.view for one in workers}) == 1


def test_what_is_old_is_computed_again_and_by_one(workers, looks, monkeypatch):
    workers[0].look_if_due()
    monkeypatch.setattr(field, "OLD", timedelta(0))
    workers[1].look_if_due()
    monkeypatch.undo()
    for one in workers:
        one.look_if_due()
    assert looks.models == ["demo", "demo"]


def test_a_database_that_is_down_is_told_and_tried_again(workers, looks, monkeypatch, caplog):
    workers[0].look_if_due()
    monkeypatch.setattr(field, "OLD", timedelta(0))
    looks.error = DatabaseError("it is down")
    workers[0].look_if_due()
    assert "it is down" in workers[0].health_issues[0]
    monkeypatch.undo()
    workers[1].look_if_due()
    assert workers[1].health_issues == workers[0].health_issues  # by every process
    assert workers[1].view.looked is not None  # when figures were computed last
    looks.error = None
    monkeypatch.setattr(field, "AGAIN", timedelta(0))
    workers[1].look_if_due()
    assert workers[1].health_issues == []


def test_a_file_that_is_broken_is_computed_anew(workers, looks, tmp_path):
    workers[0].look_if_due()
    (tmp_path / "shared" / "field.json").write_text('{"rows": 7}')
    workers[1].look_if_due()
    assert looks.models == ["demo", "demo"]


@pytest.fixture
def broken(registry, promote, bundle, tmp_path):
    """A release that misses its target for dark skin, and the address of the outcomes that say so."""
    promote(registry, bundle(metrics=promising()))
    url = f"sqlite:///{tmp_path / 'outcomes.db'}"
    with OutcomeStore.open(url) as store:
        miss_target(store, 1)
        benign(store, 14)
    return url


def benign(store, n):
    """So many naevi that were called so."""
    quiet = {"malignancy": 0.1, "label": "NV", "in_set": frozenset({"NV"})}
    kept = [kept_answer(BEGAN, answering=of_version(1, MODEL), **quiet) for _ in range(n)]
    store.record(kept)
    store.give([Outcome(one.id, "NV", "follow-up", on(50)) for one in kept], "k1", on(50))


def test_the_service_finds_an_alarm_keeps_it_and_tells(serve, registry, broken):
    with serve(outcomes_url=broken) as service:
        service.eventually(lambda: "dermfed_open_alarms" in service.client.get("/metrics").text)
        metrics = service.client.get("/metrics").text
        page = Texts(service.client.get("/operator", headers=HTML).text).text
    who = f'model="{MODEL}",subgroup="dark",version="1"'
    assert f'dermfed_open_alarms{{model="{MODEL}"}} 1.0' in metrics
    seen = [line for line in metrics.splitlines() if line.startswith("dermfed_field_sensitivity{")]
    assert len(seen) == 6  # seen and corrected, each with its interval
    (corrected,) = (line for line in seen if 'end="point",figure="corrected"' in line)
    assert float(corrected.split()[-1]) == pytest.approx(
        150 / (150 + 150 * 164 / 160)
    )  # four are not settled
    assert f"dermfed_field_outcomes{{{who}}} 310.0" in metrics  # 314 are known: whole groups of ten alone
    assert f"dermfed_field_malignant_outcomes{{{who}}} 300.0" in metrics
    assert f"dermfed_field_answers{{{who}}} 314.0" in metrics
    assert "version 1 misses its target for dark, a sensitivity of 0.90 or more" in page
    assert "Something is wrong" in page
    assert page.index("What became of the patients") < page.index("Versions that answer")
    assert registry.alarms(MODEL) == ()  # a service writes nothing there


def test_of_few_benign_ones_no_figure_leaves_and_the_alarm_does(serve, registry, promote, bundle, tmp_path):
    promote(registry, bundle(metrics=promising()))
    url = f"sqlite:///{tmp_path / 'outcomes.db'}"
    with OutcomeStore.open(url) as store:
        miss_target(store, 1)
        benign(store, 9)
    with serve(outcomes_url=url) as service:
        service.eventually(lambda: "dermfed_open_alarms" in service.client.get("/metrics").text)
        metrics = service.client.get("/metrics").text
    assert f'dermfed_open_alarms{{model="{MODEL}"}} 1.0' in metrics
    assert 'end="point"' not in metrics
    assert "dermfed_field_malignant_outcomes{" not in metrics
    assert "evidence" not in metrics
