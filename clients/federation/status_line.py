"""The progress of a run at this moment, in one line."""

from collections.abc import Mapping, Sequence
from typing import Any

from training.jobs.job import Job
from training.progress import left_text, seconds_left

MAX_NAMES = 8  # names in one list


def status_line(progress: Mapping[str, Any]) -> str:
    """The question under way: who answered, who has not yet, who is away; empty between two questions.

    Args:
        progress: what the coordinator reports of the run.
    """
    pending, away = progress.get("pending", ()), progress.get("away", {})
    if not progress.get("asking") or not pending:
        return ""
    answered = progress.get("answered", ())
    parts = [f"{progress['asking']}: {len(answered)} of {len(answered) + len(pending)} answered"]
    here = [name for name in pending if name not in away]
    if here:
        parts.append(f"{progress.get('seconds', 0):.0f} s, not yet {names(here)}")
    if away:
        parts.append(f"away {names(list(away))}")
    return "; ".join(parts)


def rounds_line(job: Job, last: Sequence[Mapping[str, Any]]) -> str:
    """How many rounds of the stage under way are done, and how long the others take.

    Empty where none is under way, or the job has no such stage.

    Args:
        job: the job.
        last: the last rounds in `metrics.jsonl`; the mean of their seconds is what a round takes.
    """
    if not last:
        return ""
    key, done = last[-1]["stage"], last[-1]["round"]
    keys = [job.key(place) for place in range(len(job.stages))]
    if key not in keys:
        return ""
    total = job.stage(key).num_rounds
    if total is None or done >= total:
        return ""
    seconds = [line["seconds"] for line in last if line["stage"] == key]
    follow = len(keys) - 1 - keys.index(key)
    left = seconds_left(seconds, total - done)
    return f"{done} of {total} rounds done, {left_text(left, stages_follow=follow)}"


def names(clients: list[str]) -> str:
    """As many names as fit on a line."""
    more = f" and {len(clients) - MAX_NAMES} more" if len(clients) > MAX_NAMES else ""
    return ", ".join(clients[:MAX_NAMES]) + more
