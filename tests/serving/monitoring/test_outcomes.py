"""Outcomes over HTTP: given, corrected, withdrawn and refused; what is kept of an answer, and what not."""

import sqlite3
import time
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from registry.outcomes.metrics import monitored
from registry.outcomes.store import UNKNOWN, OutcomeStore
from serving.metrics import Metrics
from serving.monitoring import outcomes
from serving.monitoring.outcomes import AnswerKeeper
from tests.registry.kept_answers import kept_answer
from tests.thresholds import triage

TODAY = datetime.now(UTC).date()
MELANOMA = {"label": "MEL", "confirmed_by": "histopathology", "date": TODAY.isoformat()}


@pytest.fixture
def database(tmp_path):
    return tmp_path / "outcomes.db"


@pytest.fixture
def url(database):
    return f"sqlite:///{database}"


@pytest.fixture
def kept(serve, registry, promote, bundle, dark, url):
    """A service that keeps answers."""
    promote(registry, bundle(), bundle(dark))
    with serve(outcomes_url=url) as service:
        yield service


def give(service, id_, outcome=MELANOMA, **options):
    return service.client.post(f"/v1/diagnoses/{id_}/outcome", json=outcome, **options)


def test_outcomes_are_counted_by_version_and_known_subgroup(kept, url):
    for tone in ("V", "V", "1", ""):
        answer = kept.diagnose(params={"skin_tone": tone}).json()
        assert give(kept, answer["id"]).status_code == 200
    with OutcomeStore.open(url) as store:
        found = monitored(store, "skin-lesion")
    counts = {(one.version, one.made_for, one.subgroup): len(one.arrived) for one in found}
    # No version and no test of its own is for tone 1: the tone itself is not kept.
    assert counts == {(1, "global", UNKNOWN): 2, (2, "dark", "dark"): 2}


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
        ({**MELANOMA, "date": (TODAY + timedelta(days=3)).isoformat()}, 422, "future"),
        ({**MELANOMA, "date": "31.03.2026"}, 422, "date"),
        ({**MELANOMA, "date": "2026-02-30"}, 422, "YEAR-MONTH-DAY"),
        ({**MELANOMA, "patient": "Jane"}, 422, "patient"),
        ({"label": "MEL"}, 422, "confirmed_by"),
        ([], 422, ""),
        ({**MELANOMA, "label": "x" * 5000}, 413, "4,096 bytes"),
    ],
)
def test_what_is_no_outcome_is_refused_and_says_what_is(keeping, problem, outcome, status, why):
    id_ = keeping.diagnose().json()["id"]
    assert why in problem(give(keeping, id_, outcome), status)["detail"]


def test_another_keys_diagnosis_is_unknown_to_it_but_not_to_an_operator(kept, registry, problem):
    scopes = {
        "app": ("diagnose", "outcome"),
        "other": ("diagnose", "outcome"),
        "asks": ("diagnose",),
        "ward": ("outcome", "operate"),
    }
    secrets = {name: registry.create_key(name, scopes=has)[1] for name, has in scopes.items()}
    headers = {name: {"Authorization": f"Bearer {secret}"} for name, secret in secrets.items()}
    kept.eventually(lambda: kept.diagnose(headers=headers["ward"]).status_code == 403)
    id_ = kept.diagnose(headers=headers["app"]).json()["id"]
    problem(give(kept, id_), 401)
    assert "lacks the scope `outcome`" in problem(give(kept, id_, headers=headers["asks"]), 403)["detail"]
    refused = problem(give(kept, id_, headers=headers["other"]), 404)
    unknown = problem(give(kept, uuid.uuid4(), headers=headers["other"]), 404)
    assert refused["detail"] == unknown["detail"]
    assert give(kept, id_, headers=headers["app"]).json()["taken"] == "new"
    assert give(kept, id_, headers=headers["ward"]).json()["taken"] == "known already"


def test_a_page_of_another_site_gives_none(keeping, problem):
    id_ = keeping.diagnose().json()["id"]
    headers = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    problem(give(keeping, id_, headers=headers), 403)


def test_a_service_without_a_database_keeps_none_and_says_so(serve, registry, promote, bundle, problem):
    promote(registry, bundle())
    with serve() as service:
        id_ = service.diagnose().json()["id"]
        assert "DERMFED_OUTCOMES_URL" in problem(give(service, id_), 404)["detail"]


def test_nothing_else_is_kept_of_an_answer(kept, database):
    answer = kept.form({"skin_tone": "V"}).json()
    give(kept, answer["id"])
    with closing(sqlite3.connect(database)) as connection:
        written = [line for line in connection.iterdump() if line.startswith("INSERT")]
        ((cell,),) = connection.execute("SELECT cell FROM answers").fetchall()
    assert isinstance(cell, int)
    assert len(written) == 4  # schema, version, answer, outcome
    for personal in ("lesion.jpg", "'V'", "fitzpatrick", str(answer["findings"][0]["probability"])):
        assert personal not in "\n".join(written)


# The thread that writes answers


@pytest.fixture
def keeper(url, monkeypatch):
    monkeypatch.setattr(outcomes, "SECONDS", 0.01)
    monkeypatch.setattr(outcomes, "_AGAIN_SECONDS", 0.01)
    made = AnswerKeeper(url, Metrics())
    yield made
    made.close()


def wait_until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.005)


def change(database, *statements):
    with closing(sqlite3.connect(database)) as connection:
        for one in statements:
            connection.execute(one)
        connection.commit()


def test_while_the_database_takes_none_answers_wait_and_it_is_reported(keeper, database, url):
    keeper.start()
    change(database, "ALTER TABLE answers RENAME TO away")
    keeper.put(kept_answer())
    wait_until(lambda: keeper.health_issues)
    assert "1 answers wait to be kept" in keeper.health_issues[0]
    change(database, "ALTER TABLE away RENAME TO answers")
    wait_until(lambda: not keeper.health_issues)
    with OutcomeStore.open(url) as store:
        assert monitored(store, "demo")[0].answered.sum() == 1


def test_a_database_that_is_not_there_yet_keeps_no_service_from_starting(keeper, database, url):
    database.mkdir()
    keeper.start()
    keeper.put(kept_answer())
    assert keeper.health_issues
    database.rmdir()
    wait_until(lambda: not keeper.health_issues)
    with OutcomeStore.open(url) as store:
        assert monitored(store, "demo")[0].answered.sum() == 1


def test_an_answer_that_cannot_be_written_is_not_in_the_log(keeper, database, caplog, monkeypatch):
    def quote(store, answers):
        raise ValueError(f"a bug with {answers}")

    keeper.start()
    answer = kept_answer()
    full = "CREATE TRIGGER full BEFORE INSERT ON answers BEGIN SELECT RAISE(ABORT, 'full'); END"
    change(database, full)
    keeper.put(answer)
    wait_until(lambda: keeper.health_issues)
    with monkeypatch.context() as patch:
        patch.setattr(OutcomeStore, "record", quote)
        wait_until(lambda: "ValueError" in keeper.health_issues[0])
    assert "cannot be kept" in caplog.text
    assert "ValueError" in caplog.text
    assert answer.id not in caplog.text
    assert answer.id not in str(keeper.health_issues)


def test_what_comes_while_too_many_wait_is_lost_and_counted(url, monkeypatch):
    metrics = Metrics()
    keeper = AnswerKeeper(url, metrics)
    monkeypatch.setattr(outcomes, "WAITING", 2)
    for _ in range(5):
        keeper.put(kept_answer())
    assert metrics.registry.get_sample_value("dermfed_answers_not_kept_total") == 3
