"""Inference: from an uploaded picture to a diagnosis, through a dynamic batcher over the released graphs.

- `predictor`: decoding a picture for a version, and building the diagnosis from the model's outputs.
- `scheduler`: the dynamic batcher and its threads; `gathering`: which pictures go together; `run_batch`: one
  run of a model; `queued_picture`: what waits, and its way back to the event loop.
- `device`: on what models run.
- `quality`: whether a picture can be judged; `tone`: whether it contradicts the declared skin tone.
- `reasons`: why the decision is what it is.
- `priority`: threads that leave the processor to inference.
"""
