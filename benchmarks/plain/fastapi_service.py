"""What a good engineer writes in an afternoon: FastAPI, Pillow and ONNX Runtime, with their defaults."""

import io
import os

import numpy as np
import onnxruntime
from fastapi import FastAPI, UploadFile
from PIL import Image

SIZE = int(os.environ["BENCH_SIZE"])
session = onnxruntime.InferenceSession(os.environ["BENCH_MODEL"], providers=["CPUExecutionProvider"])
app = FastAPI()


@app.post("/diagnose")
def diagnose(image: UploadFile):
    """The probabilities of one picture."""
    picture = Image.open(io.BytesIO(image.file.read())).convert("RGB").resize((SIZE, SIZE))
    probabilities = session.run(["probabilities"], {"images": np.asarray(picture)[None]})[0][0]
    return {"probabilities": probabilities.tolist()}
