"""Inference: from an uploaded picture to a diagnosis, through a dynamic batcher over the released graphs.

- `predictor`: decoding a picture for a version, and building the diagnosis from the model's outputs.
- `batcher`: the dynamic batcher and its threads.
- `device`: on what models run.
- `quality`: whether a picture can be judged.
- `reasons`: why the decision is what it is; whether the picture contradicts the declared skin tone.
"""
