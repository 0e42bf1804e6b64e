"""Counts of the field as a file: by version and subgroup, of no patient, and of no version that has none."""

from datetime import date

import pytest
from pydantic import ValidationError

from registry.bundle.counts.field_counts import FieldFile, FieldStratum, read_field_file
from registry.bundle.errors import CountsError
from registry.field.exporting import export_field
from registry.outcomes.giving import ANYBODY
from registry.outcomes.outcome import Outcome
from registry.outcomes.store import OutcomeStore
from tests.field_files import FIRST, SECOND, cell, file, stratum
from tests.registry.kept_answers import kept_answer, of_version

TODAY = date(2026, 6, 1)


@pytest.fixture
def store(tmp_path):
    with OutcomeStore.open(f"sqlite:///{tmp_path / 'outcomes.db'}") as opened:
        yield opened


def test_answers_and_outcomes_are_counted_by_stratum(store):
    above = [kept_answer(day) for day in range(5)]
    below = [kept_answer(day, malignancy=0.1, label="NV", in_set=frozenset({"NV"})) for day in range(7)]
    referred = [kept_answer(0, malignancy=0.2, decision="refer")]
    store.record([*above, *below, *referred, kept_answer(0, answering=of_version(2))])
    outcomes = [
        (above[0], "MEL"),
        (above[1], "NV"),
        (below[0], "NV"),
        (below[1], "BCC"),
        (referred[0], "MEL"),
    ]
    store.give([Outcome(one.id, label, "histopathology", TODAY) for one, label in outcomes], ANYBODY)
    digests = {1: FIRST, 2: SECOND}
    found = export_field(store, "demo", digests.get, TODAY)
    assert found.left_out == ()
    assert found.file.cell(FIRST, "dark").strata == (
        stratum(False, 1, 1, 1),  # referred
        stratum(False, 7, 2, 1, in_set=1),
        stratum(True, 0, 0, 0),
        stratum(True, 5, 2, 1, in_set=1),
    )
    assert found.file.cell(SECOND, "dark").answered == 1
    ids = [one.id for one in (*above, *below)]
    assert not any(one in found.file.model_dump_json() for one in ids)


def test_versions_that_have_no_working_point_or_no_bundle_any_more_are_left_out(store):
    store.record([kept_answer(side="none"), kept_answer(answering=of_version(2))])
    assert export_field(store, "demo", {1: FIRST}.get, TODAY).left_out == (1, 2)


def test_what_is_read_is_what_was_written(tmp_path):
    path, written = tmp_path / "field.json", file(cell(stratum(True, 9, 5, 4)))
    path.write_text(written.model_dump_json())
    assert read_field_file(path) == written


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": "dermfed-field-counts/2", "model": "m", "cells": []}']
)
def test_a_file_of_something_else_is_none(tmp_path, text):
    path = tmp_path / "field.json"
    path.write_text(text)
    with pytest.raises(CountsError, match="holds no counts of the field"):
        read_field_file(path)


def test_counts_that_cannot_be_are_none():
    for wrong in ({"confirmed": 4}, {"malignant": 3}, {"in_set": 3}, {"answered": -1}):
        with pytest.raises(ValidationError):
            FieldStratum(
                **{"flagged": True, "answered": 3, "confirmed": 2, "malignant": 1, "in_set": 1, **wrong}
            )
    twice = file(cell(stratum(True, 1, 1, 1))).cells * 2
    with pytest.raises(ValidationError, match="there twice"):
        FieldFile(model="m", until=TODAY, cells=twice)


@pytest.mark.sqlite
def test_the_command_writes_counts_of_the_registrys_versions(command, folders, bundle, tmp_path):
    assert command("add", *folders(bundle())).code == 0
    url = f"sqlite:///{tmp_path / 'service.db'}"
    with OutcomeStore.open(url) as kept:
        answering = of_version(1)
        kept.record(
            [kept_answer(answering=type(answering)("skin-lesion", *list(vars(answering).values())[1:]))]
        )
    path = tmp_path / "field.json"
    ended = command("field", "skin-lesion", "--outcomes", url, "--counts", path)
    assert (ended.code, ended.err) == (0, "")
    assert "1 versions, 0 outcomes" in ended.out
    (one,) = read_field_file(path).cells
    assert one.version in command("show", "skin-lesion", "--version", 1).out
