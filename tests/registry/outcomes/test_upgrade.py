"""A database of outcomes of the schema before: upgraded by whoever opens it, with all that it tells."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import inspect

from registry.database.connection import open_database, reading, writing
from registry.errors import SchemaTooNew
from registry.field.report import field_report
from registry.outcomes.counts import field_counts
from registry.outcomes.outcome import Outcome
from registry.outcomes.store import OutcomeStore
from tests.registry.kept_answers import FIRST, kept_answer

MADE = Path(__file__).parent / "schema_1"
"""What a dermfed of schema 1 wrote: thirty answers, a third above the working point; twelve outcomes, one of
them corrected."""


@pytest.fixture
def old(url: str) -> str:
    """The address of a database of schema 1."""
    engine = open_database(url)
    kind = "sqlite" if url.startswith("sqlite") else "postgresql"
    with writing(engine) as connection:
        for statement in (MADE / f"{kind}.sql").read_text().split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
    engine.dispose()
    return url


def facts(url):
    engine = open_database(url)
    with reading(engine) as connection:
        tables = ("answering", "answers", "answer_counts", "outcomes")
        found = {one: sorted(map(repr, connection.exec_driver_sql(f"SELECT * FROM {one}"))) for one in tables}
        schema = connection.exec_driver_sql("SELECT number FROM outcomes_schema").scalar()
    engine.dispose()
    return schema, found


def test_it_is_upgraded_by_whoever_opens_it_and_tells_what_it_told(old):
    schema, before = facts(old)
    with OutcomeStore.open(old, create=False) as store:
        (one,) = field_report(store, "demo", lambda number: None)
        (counts,) = field_counts(store, "demo")
        assert len(store.identity()) == 32
    assert (schema, facts(old)) == (1, (2, before))
    assert (one.figures.answered, one.figures.confirmed, one.figures.malignant) == (30, 12, 5)
    assert counts.in_set.sum() == 9
    assert np.isclose(one.coverage.value, 9 / 12)
    assert np.isclose(one.figures.seen_sensitivity.value, 3 / 5)


def test_it_takes_answers_and_outcomes_as_before(old):
    with OutcomeStore.open(old) as store:
        answer = kept_answer(50)
        store.record([answer])
        assert store.give([Outcome(answer.id, "MEL", "follow-up", FIRST)], "k1", FIRST) == ["new"]


def test_many_open_it_at_once_and_it_gets_one_id(old):
    def opened(_):
        with OutcomeStore.open(old) as store:
            return store.identity()

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(opened, range(6)))) == 1


def test_it_has_the_tables_of_a_new_one(old, tmp_path):
    OutcomeStore.open(old).close()
    OutcomeStore.open(f"sqlite:///{tmp_path / 'new.db'}").close()
    columns = []
    for url in (old, f"sqlite:///{tmp_path / 'new.db'}"):
        engine = open_database(url)
        tables = inspect(engine)
        columns.append(
            {one: [each["name"] for each in tables.get_columns(one)] for one in tables.get_table_names()}
        )
        engine.dispose()
    assert columns[0] == columns[1]


def test_an_id_is_of_one_database_and_stays(url, tmp_path):
    with OutcomeStore.open(url) as store, OutcomeStore.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        assert store.identity() != other.identity()
        first = store.identity()
    with OutcomeStore.open(url) as again:
        assert again.identity() == first


def test_a_newer_one_is_refused_and_left_alone(old):
    engine = open_database(old)
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE outcomes_schema SET number = 3")
    engine.dispose()
    with pytest.raises(SchemaTooNew):
        OutcomeStore.open(old)
