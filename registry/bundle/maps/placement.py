"""Where in a picture, as it was sent, lies what the model saw of it."""

from dataclasses import dataclass

from registry.bundle.pictures.rule import PictureRule


@dataclass(frozen=True)
class Placement:
    """The part of a picture that a model saw.

    Attributes:
        width: of the picture as it is looked at, after the turn that EXIF asks for, in pixels.
        height: likewise.
        box: left, upper, right and lower edge of what the model saw, as shares of width and height.
    """

    width: int
    height: int
    box: tuple[float, float, float, float]


def placement(width: int, height: int, rule: PictureRule) -> Placement:
    """What a model of this picture rule saw of a picture.

    A rule cuts the centre, so that a turn of the picture turns what was cut with it.

    Args:
        width: of the picture as it is looked at, in pixels.
        height: likewise.
        rule: by which it became pixels.
    """
    if rule.fit == "squash":
        return Placement(width, height, (0.0, 0.0, 1.0, 1.0))
    edge = min(width, height)
    across, down = (1 - edge / width) / 2, (1 - edge / height) / 2
    return Placement(width, height, (across, down, 1 - across, 1 - down))
