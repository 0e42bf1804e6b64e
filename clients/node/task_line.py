"""The log line of one task, for whoever runs the node: what was asked, how long it took, bytes sent.

Nothing is in it that is in no answer: no picture, no file, no figure.
"""

from training.engines.nvflare.wire import Stamp
from training.messages.message import Answer, Failure


def task_line(job: str, question: Stamp, answer: Answer, seconds: float, sent: int) -> str:
    """The log line of one task.

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
