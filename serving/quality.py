"""Whether a picture can be judged at all: what is wrong with it, and what to do when taking another."""

from registry.bundle.picture import PictureRule
from serving.schemas import Quality


def judge(width: int, height: int, rule: PictureRule) -> Quality:
    """The quality of a picture of `width` x `height` pixels for a model that sees `rule.size` squared.

    A picture with fewer pixels than the model sees would be blown up: details that the model was
    trained on are not in it.
    """
    issues = []
    if min(width, height) < rule.size:
        issues.append(
            f"The picture has {width} x {height} pixels; the model looks at {rule.size} x {rule.size}. "
            "Take it from nearer, or send it in its full size."
        )
    return Quality(acceptable=not issues, issues=issues)
