"""A line for each task, for whoever runs the node: what was asked, how long it took, how much was sent.

Nothing is in it that is in no answer: no picture, no file, no figure.
"""

from training.messages import Answer, Failure
from training.wire import Stamp


def task_line(job: str, question: Stamp, answer: Answer, seconds: float, sent: int) -> str:
    """One line.

    Args:
        job: its name.
        question: what was asked.
        answer: what came of it.
        seconds: that it took.
        sent: bytes of the answer, its header included.
    """
    about = "" if question.track == "global" else f" ({question.track})"
    asked = f"job {job}, {question.stage} round {question.round}, {question.ask}{about}"
    if isinstance(answer, Failure):
        return f"{asked}: not done after {seconds:.1f} s: {answer.reason}"
    return f"{asked}: done in {seconds:.1f} s, {sent:,} bytes sent"
