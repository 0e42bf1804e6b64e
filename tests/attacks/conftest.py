"""Hospitals for attacks on what really leaves them: those of the tests of training."""

from tests.training.conftest import dataset, make_client, make_dataset, make_job, run_job

__all__ = ["dataset", "make_client", "make_dataset", "make_job", "run_job"]
