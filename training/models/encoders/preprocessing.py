"""How an encoder was shown its pictures while it was trained; it is right only where it is shown them so."""

from pydantic import model_validator

from registry.bundle.pictures.rule import Interpolation
from training.config import FrozenConfig

Colours = tuple[float, float, float]


class Normalisation(FrozenConfig):
    """Mean and standard deviation that pictures in [0, 1] are normalised with: (x - mean) / std.

    Attributes:
        mean: of red, green and blue.
        std: of red, green and blue.
    """

    mean: Colours
    std: Colours

    @model_validator(mode="after")
    def _of_pictures_up_to_one(self) -> "Normalisation":
        if not all(0 <= value <= 1 for value in self.mean) or not all(0 < value <= 1 for value in self.std):
            raise ValueError(
                f"mean {list(self.mean)} and std {list(self.std)} are not of pictures in [0, 1]: give means "
                "from 0 to 1 and standard deviations above 0 up to 1; divide those of 0 to 255 by 255"
            )
        return self


IMAGENET = Normalisation(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


class Preprocessing(FrozenConfig):
    """What an encoder expects of its pictures.

    Attributes:
        normalisation: of their colours.
        interpolation: by which they were resized.
    """

    normalisation: Normalisation = IMAGENET
    interpolation: Interpolation = "bilinear"


AS_EVER = Preprocessing()
