"""What a hospital's policy says of a job: a line for each rule, for `check` and for the door of the node."""

from collections.abc import Iterator
from dataclasses import dataclass

from clients.node.policy import Policy, PrivacyPolicy
from training.algorithms.objectives.dp_sgd import DPSGD
from training.data.settings import identifying, selecting_columns
from training.jobs.job import Job
from training.jobs.recipes import recipe_path
from training.privacy.settings import PrivacyConfig

SAME = ("model", "stages", "compression", "evaluation")  # the blocks that make a job the one of a recipe


@dataclass(frozen=True)
class Verdict:
    """What one rule says of a job.

    Attributes:
        rule: the key in `policy.yaml`.
        allowed: whether the job keeps to it.
        text: what is asked, and what the job has.
    """

    rule: str
    allowed: bool
    text: str


def verdicts_on(policy: Policy, job: Job, unmasked: str | None = None) -> Iterator[Verdict]:
    """What each rule of the policy says of a job; nothing of rules that are not set.

    Args:
        policy: the hospital's.
        job: the job, with masks on counts decided.
        unmasked: why counts leave in the clear, where that is known.
    """
    yield from on_privacy(policy.privacy, job, unmasked)
    named = policy.jobs
    if named.digests or named.recipes:
        recipe = recipe_of(job, named.recipes)
        allowed = job.digest in named.digests or recipe is not None
        what = f"the recipe {recipe}" if recipe else job.digest
        wanted = [f"{len(named.digests)} digests"] if named.digests else []
        wanted += [f"the recipes {', '.join(named.recipes)}"] if named.recipes else []
        yield Verdict("jobs", allowed, f"{' and '.join(wanted)} are allowed, the job is {what}")


def on_privacy(least: PrivacyPolicy, job: Job, unmasked: str | None) -> Iterator[Verdict]:
    """What the rules on privacy say of a job."""
    privacy = job.privacy
    masks, secure = privacy.masked_counts, privacy.secure_aggregation
    yield Verdict(
        "privacy.min_count",
        privacy.min_count >= least.min_count,
        f"{least.min_count} or more is asked, the job has {privacy.min_count}",
    )
    columns = selecting_columns(job.data, job.evaluation.intersections)
    for column, settings in columns.items():
        why = "may select by it" if column in least.columns else "is not among privacy.columns"
        if identifying(column):
            why = "names single pictures, lesions or patients, by which no job selects"
        yield Verdict(
            "privacy.columns",
            column in least.columns,
            f"{', '.join(settings)} {'selects' if len(settings) == 1 else 'select'} by the column {column}, "
            f"which {why}",
        )
    if least.masked_counts:
        yield Verdict("privacy.masked_counts", masks is not None, masked_in_words(job, unmasked))
    if least.masked_weights:
        yield Verdict(
            "privacy.masked_weights",
            secure is not None,
            f"weights leave {'under masks' if secure else 'in the clear: no privacy.secure_aggregation'}",
        )
    sums = {each.fewest for each in (masks, secure) if each is not None}
    if sums:
        yield Verdict(
            "privacy.fewest",
            min(sums) >= least.fewest,
            f"sums over {least.fewest} hospitals or more are asked, the job's are over {min(sums)} or more",
        )
    if least.least_noise is not None:
        noise = noise_of(job)
        yield Verdict(
            "privacy.least_noise",
            noise >= least.least_noise,
            f"a noise multiplier of {least.least_noise:g} or more is asked, the job has {noise:g}",
        )
    if least.largest_epsilon is not None:
        epsilon = privacy.counts.epsilon
        yield Verdict(
            "privacy.largest_epsilon",
            epsilon is not None and epsilon <= least.largest_epsilon,
            f"counts with ε of {least.largest_epsilon:g} or less are asked, the job has "
            f"{noise_in_words(privacy)}",
        )


def masked_in_words(job: Job, unmasked: str | None) -> str:
    """Whether counts leave under masks, and what hospitals have to do that allow it otherwise."""
    if job.privacy.masked_counts is not None:
        return "counts leave under masks"
    why = "" if unmasked is None else f": {unmasked}"
    return (
        f"counts leave in the clear{why}. A hospital that allows it writes privacy.masked_counts: false into "
        "its policy.yaml; where two take part, both have to"
    )


def noise_in_words(privacy: PrivacyConfig) -> str:
    """The noise on counts, in words."""
    return "no noise on them" if privacy.counts.epsilon is None else f"{privacy.counts.epsilon:g}"


def noise_of(job: Job) -> float:
    """The least noise multiplier of whatever a job trains and sends; 0 where some of it gets none."""
    level = job.privacy.client_level
    if level is not None:
        return level.noise_multiplier
    trained = [stage for stage in job.stages if hasattr(stage, "objective")]
    others = any(hasattr(stage, "strategy") for stage in job.stages)  # trains by another rule, without noise
    private = [each.objective.noise_multiplier for each in trained if isinstance(each.objective, DPSGD)]
    return min(private) if private and len(private) == len(trained) and not others else 0.0


def recipe_of(job: Job, names: tuple[str, ...]) -> str | None:
    """Which of these built-in jobs a job is, by what is installed here; None for none of them."""
    from training.jobs.job import read_job

    for name in names:
        recipe = read_job(recipe_path(name))
        if all(getattr(recipe, block) == getattr(job, block) for block in SAME):
            return name
    return None
