"""How a job's pictures are dealt so that every group is told of: shares of the splits, and parts of a trial.

A client tells nothing of a subgroup's pictures in a split if they are of fewer patients than
`privacy.min_count`, and a stage that nobody tells anything cannot go on. Where patients are few, more of them
go to validation and calibration, and a trial has fewer parts, or one; what still could not work is left out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from clients.data.errors import ClientDataError, SplitError
from clients.new_job.answers import Answers
from clients.new_job.parties import FEWEST_PARTS, Parties
from clients.new_job.rehearsal import GroupCounts, Rehearsal
from registry.bundle.manifest.schema import UNDECLARED
from training.data.settings import ClientsConfig, SplitConfig, ToneSubgroups

WIDER = SplitConfig(train=0.5, validation=0.15, calibration=0.15, test=0.2)  # where patients are few


@dataclass(frozen=True)
class Plan:
    """How a job's pictures are dealt, and which stages can work with that.

    Attributes:
        parties: who the clients are.
        split: the shares of the splits.
        personalize: whether each subgroup gets a calibration of its own.
        calibrate: whether confidence can be calibrated at all.
    """

    parties: Parties
    split: SplitConfig
    personalize: bool = False
    calibrate: bool = True


def plans(answers: Answers, usual: SplitConfig, *, fixed: bool) -> Iterator[Plan]:
    """What may be tried, the usual first.

    Args:
        answers: to the five questions.
        usual: the recipe's shares.
        fixed: whether a person said who the clients are.
    """
    personalize = isinstance(answers.subgroups, ToneSubgroups)
    for split in (usual, WIDER):
        yield Plan(answers.parties, split, personalize)
    clients = answers.parties.clients
    if not fixed and clients.by == "iid" and clients.count != FEWEST_PARTS:
        yield Plan(Parties(ClientsConfig(by="iid", count=FEWEST_PARTS), {}), WIDER, personalize)
        yield Plan(Parties(ClientsConfig(by="manifest"), {}), WIDER, personalize)


def chosen(tried: Sequence[Plan], rehearse: Callable[[Plan], Rehearsal]) -> tuple[Plan, Rehearsal]:
    """The first plan in which every subgroup is told of in every split that is told of, else the last.

    Raises:
        ClientDataError: no plan can be carried out, or nothing would be told of any test picture.
    """
    outcome: tuple[Plan, Rehearsal] | None = None
    for plan in tried:
        try:
            outcome = plan, rehearse(plan)
        except SplitError:
            raise
        except ClientDataError:
            if plan is tried[-1] and outcome is None:
                raise
            continue
        if all(each.told for each in _declared(outcome[1]) if each.split != "train"):
            return outcome
    assert outcome is not None, "a plan that failed was the last, or another went before"
    plan, rehearsal = outcome
    if not any(each.told for each in rehearsal.groups if each.split == "test"):
        most = max(each.patients for each in rehearsal.groups if each.split == "test")
        raise ClientDataError(
            f"too few patients: the test split would have {most} at most of any subgroup, and a client tells "
            "nothing of fewer than `privacy.min_count`; collect more, take fewer clients (--clients files), "
            "or --subgroups none"
        )
    return _what_works(plan, rehearsal), rehearsal


def _what_works(plan: Plan, rehearsal: Rehearsal) -> Plan:
    """The plan without the stages that would be told nothing."""
    validation = [each for each in _declared(rehearsal) if each.split == "validation"]
    calibration = [each for each in rehearsal.groups if each.split == "calibration"]
    return replace(
        plan,
        personalize=plan.personalize
        and any(each.told for each in validation)
        and all(each.patients for each in validation),
        calibrate=any(each.told for each in calibration),
    )


def _declared(rehearsal: Rehearsal) -> list[GroupCounts]:
    """The counts of the job's subgroups, or of all pictures where it has none."""
    named = [each for each in rehearsal.groups if each.subgroup != UNDECLARED]
    return named or list(rehearsal.groups)
