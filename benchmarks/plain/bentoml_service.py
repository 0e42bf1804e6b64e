"""The same in BentoML's own words: a `PIL.Image` comes in, a list goes out."""

import os

import bentoml
import numpy as np
import onnxruntime
from PIL import Image

SIZE = int(os.environ["BENCH_SIZE"])


@bentoml.service
class PlainService:
    """One model, loaded once a worker."""

    def __init__(self):
        self.session = onnxruntime.InferenceSession(
            os.environ["BENCH_MODEL"], providers=["CPUExecutionProvider"]
        )

    @bentoml.api
    def diagnose(self, image: Image.Image) -> list[float]:
        """The probabilities of one picture."""
        picture = image.convert("RGB").resize((SIZE, SIZE))
        return self.session.run(["probabilities"], {"images": np.asarray(picture)[None]})[0][0].tolist()
