"""What earlier versions wrote is read as they read it: from 0.2.0 on, each of them."""

import json
import tarfile
from pathlib import Path

import pytest

from tests.contract.released import ANSWERS, JOB, MODEL, PICTURE, REGISTRY, RELEASE, answers, opened
from training.jobs.job import Job

VERSIONS = sorted((Path(__file__).parent / "released").glob("*.*.*"))
by_version = pytest.mark.parametrize("written", VERSIONS, ids=lambda folder: folder.name)


def alike(found, stored):
    """Answers to six digits: processors differ in the last."""
    return json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 6)) == json.loads(
        json.dumps(stored), parse_float=lambda text: round(float(text), 6)
    )


@by_version
def test_a_registry_is_opened_and_its_bundles_answer_alike(written, tmp_path):
    with tarfile.open(written / REGISTRY) as packed:
        packed.extractall(tmp_path, filter="data")
    with opened(tmp_path) as registry:
        assert registry.verify() == ()
        assert [one.number for one in registry.versions(MODEL)] == [1, 2]
        picture = (written / PICTURE).read_bytes()
        said = answers(lambda model, number: registry.bundle(registry.version(model, number)), picture)
        assert alike(said, json.loads((written / ANSWERS).read_text()))
        registry.promote(MODEL, [2, 1], to="staging", reason="go on", override_gates=True)
        assert registry.verify() == ()


@by_version
def test_a_release_in_a_file_is_imported(written, tmp_path):
    with opened(tmp_path) as registry:
        registry.import_release(written / RELEASE)
        assert [one.number for one in registry.versions(MODEL)] == [1, 2]
        assert registry.verify() == ()


@by_version
def test_a_job_means_what_it_meant(written):
    stored = json.loads((written / JOB).read_text())
    assert Job.model_validate(stored["job"]).digest == stored["digest"]


def test_there_is_one_of_the_first_version_that_promises_anything():
    assert "0.2.0" in [folder.name for folder in VERSIONS]
