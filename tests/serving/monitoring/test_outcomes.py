"""Outcomes over HTTP: given, corrected, taken back and refused; what is kept of an answer, and what not."""

import sqlite3
import threading
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from registry.outcomes.metrics import monitored
from registry.outcomes.store import UNKNOWN, OutcomeStore
from serving.metrics import Metrics
from serving.monitoring import outcomes as keeping
from serving.monitoring.outcomes import AnswerKeeper
from tests.registry.kept_answers import kept_answer
from tests.thresholds import triage

threading_pause = threading.Event()
TODAY = datetime.now(UTC).date().isoformat()
MELANOMA = {"label": "MEL", "confirmed_by": "histopathology", "date": TODAY}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'outcomes.db'}"


@pytest.fixture
def kept(serve, registry, promote, bundle, dark, url):
    """A service that keeps answers."""
    promote(registry, bundle(), bundle(dark))
    with serve(outcomes_url=url) as service:
        yield service


def give(service, id_, outcome=MELANOMA, **options):
    return service.client.post(f"/v1/diagnoses/{id_}/outcome", json=outcome, **options)


def test_figures_of_the_field_are_made_of_it(kept, url):
    ids = [kept.diagnose(params={"skin_tone": tone}).json()["id"] for tone in ("V", "V", "1", "")]
    for id_ in ids:
        assert give(kept, id_).status_code == 200
    store = OutcomeStore.open(url)
    found = {
        (one.version, one.made_for, one.subgroup): len(one.arrived) for one in monitored(store, "skin-lesion")
    }
    store.close()
    # No version and no test of its own is for tone 1: the tone itself is not kept.
    assert found == {(1, "global", UNKNOWN): 2, (2, "dark", "dark"): 2}


def test_triage_is_kept_of_an_answer(serve, registry, promote, bundle, url):
    promote(registry, bundle(triage=triage()))
    with serve(outcomes_url=url) as service:
        answer = service.diagnose().json()
        assert give(service, answer["id"]).status_code == 200
    with OutcomeStore.open(url) as store:
        (found,) = monitored(store, "skin-lesion")
    assert {one.level: one.malignant["MEL"] for one in found.triaged if one.outcomes} == {answer["triage"]: 1}


@pytest.mark.parametrize(
    ("outcome", "status", "why"),
    [
        ({**MELANOMA, "label": "XYZ"}, 422, "valid: MEL, NV, AK"),
        ({**MELANOMA, "confirmed_by": "biopsy"}, 422, "confirmed_by"),
        ({**MELANOMA, "date": (datetime.now(UTC) + timedelta(days=3)).date().isoformat()}, 422, "future"),
        ({**MELANOMA, "date": "31.03.2026"}, 422, "date"),
        ({**MELANOMA, "date": "2026-02-30"}, 422, "YEAR-MONTH-DAY"),
        ({**MELANOMA, "patient": "Jane"}, 422, "patient"),
        ({"label": "MEL"}, 422, "confirmed_by"),
        ([], 422, ""),
        ({**MELANOMA, "label": "x" * 5000}, 413, "4,096 bytes"),
    ],
)
def test_what_is_no_outcome_is_refused_and_says_what_is(kept, problem, outcome, status, why):
    id_ = kept.diagnose().json()["id"]
    assert why in problem(give(kept, id_, outcome), status)["detail"]


def test_another_keys_diagnosis_is_unknown_to_it_but_not_to_an_operator(kept, registry, problem, url):
    keys = {
        name: registry.create_key(name, scopes=scopes)[1]
        for name, scopes in {
            "app": ("diagnose", "outcome"),
            "other": ("diagnose", "outcome"),
            "asks": ("diagnose",),
            "ward": ("outcome", "operate"),
        }.items()
    }

    def as_(name):
        return {"Authorization": f"Bearer {keys[name]}"}

    kept.eventually(lambda: kept.diagnose(headers=as_("ward")).status_code == 403)
    id_ = kept.diagnose(headers=as_("app")).json()["id"]
    assert problem(give(kept, id_), 401)
    assert "lacks the scope `outcome`" in problem(give(kept, id_, headers=as_("asks")), 403)["detail"]
    refused = problem(give(kept, id_, headers=as_("other")), 404)
    unknown = problem(give(kept, uuid.uuid4(), headers=as_("other")), 404)
    assert refused["detail"] == unknown["detail"]
    assert give(kept, id_, headers=as_("app")).json()["taken"] == "new"
    assert give(kept, id_, headers=as_("ward")).json()["taken"] == "known already"


def test_a_page_of_somebody_else_gives_none(kept, problem):
    id_ = kept.diagnose().json()["id"]
    problem(
        give(kept, id_, headers={"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}), 403
    )


def test_a_service_without_a_database_keeps_none_and_says_so(serve, registry, promote, bundle, problem):
    promote(registry, bundle())
    with serve() as service:
        id_ = service.diagnose().json()["id"]
        assert "DERMFED_OUTCOMES_URL" in problem(give(service, id_), 404)["detail"]


def test_nothing_else_is_kept(kept, url):
    answer = kept.form({"skin_tone": "V"}).json()
    give(kept, answer["id"])
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        dump = "\n".join(database.iterdump())
        ((cell,),) = database.execute("SELECT cell FROM answers").fetchall()
    assert isinstance(cell, int)
    written = [line for line in dump.splitlines() if line.startswith("INSERT")]
    assert len(written) == 4  # schema, version, answer, outcome
    for personal in ("lesion.jpg", "'V'", "fitzpatrick", str(answer["findings"][0]["probability"])):
        assert personal not in "\n".join(written)


class TestKeeping:
    """The thread that writes answers."""

    def test_while_the_database_takes_none_they_wait_and_it_is_told(self, url, monkeypatch):
        keeper = AnswerKeeper(url, Metrics())
        monkeypatch.setattr(keeping, "SECONDS", 0.01)
        monkeypatch.setattr(keeping, "_AGAIN_SECONDS", 0.01)
        keeper.start()
        broken = sqlite3.connect(url.removeprefix("sqlite:///"))
        broken.execute("ALTER TABLE answers RENAME TO away")
        keeper.put(kept_answer())
        wait_for(lambda: keeper.health_issues)
        assert "1 answers wait to be kept" in keeper.health_issues[0]
        broken.execute("ALTER TABLE away RENAME TO answers")
        broken.close()
        wait_for(lambda: not keeper.health_issues)
        keeper.close()
        store = OutcomeStore.open(url)
        assert monitored(store, "demo")[0].answered.sum() == 1
        store.close()

    def test_a_database_that_is_not_there_yet_keeps_no_service_from_starting(self, tmp_path, monkeypatch):
        monkeypatch.setattr(keeping, "SECONDS", 0.01)
        monkeypatch.setattr(keeping, "_AGAIN_SECONDS", 0.01)
        place = tmp_path / "disk"
        place.write_text("not a folder yet")
        keeper = AnswerKeeper(f"sqlite:///{place / 'outcomes.db'}", Metrics())
        keeper.start()
        keeper.put(kept_answer())
        assert keeper.health_issues
        place.unlink()
        wait_for(lambda: not keeper.health_issues)
        keeper.close()
        with OutcomeStore.open(f"sqlite:///{place / 'outcomes.db'}") as store:
            assert monitored(store, "demo")[0].answered.sum() == 1

    def test_an_answer_that_cannot_be_written_is_not_in_the_log(self, url, caplog):
        keeper = AnswerKeeper(url, Metrics())
        keeper.start()
        answer = kept_answer()
        with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
            database.execute(
                "CREATE TRIGGER full BEFORE INSERT ON answers BEGIN SELECT RAISE(ABORT, 'full'); END"
            )
        database.close()
        keeper.put(answer)
        wait_for(lambda: keeper.health_issues)
        assert "cannot be kept" in caplog.text
        assert answer.id not in caplog.text
        assert answer.id not in keeper.health_issues[0]
        keeper.close()

    def test_what_comes_while_too_many_wait_is_lost_and_counted(self, url, monkeypatch):
        metrics = Metrics()
        keeper = AnswerKeeper(url, metrics)
        monkeypatch.setattr(keeping, "WAITING", 2)
        for _ in range(5):
            keeper.put(kept_answer())
        assert metrics.registry.get_sample_value("dermfed_answers_not_kept_total") == 3


def wait_for(holds):
    for _ in range(100_000):
        if holds():
            return
        threading_pause.wait(0.005)
    raise AssertionError("it never came to hold")
