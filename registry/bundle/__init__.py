"""The bundle, a released model as files: what training, personalization, registry and service share.

It imports nothing of ours, and of others only numpy, Pillow, pydantic and onnxruntime, so that a
picture means the same pixels, a figure the same sum and an answer the same decision on every side.

- `manifest`: `bundle.json`; `model_file`: `model.onnx`; `folder`: reading and writing both safely.
- `pictures`: decoding a picture to the pixels that a model sees; `skin_tone`: scales, and angles in pictures.
- `counts`, `metrics`: the counts that clients send of their predictions, and every figure computed from them.
- `familiarity`: out-of-distribution distance of a picture from the training pictures.
- `cases`: what a model may be given of a lesion; `question`: showing it to a graph.
- `decision`: from one picture's probabilities to the answer a clinician gets; `would_help`: what is missing
  of a case that would make it surer; `diagnose`: without a service.
- `errors`: the exceptions of bundles, pictures and counts; `nearest`: hints for misspelt names.
- `page`: the style that pages of a run and of data share.
- `plugins`: tables of parts that other distributions may add to, which every room has.

`docs/bundle.md` and `docs/metrics.md` describe the files and the figures.
"""
