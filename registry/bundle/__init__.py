"""The bundle, a released model as files: what training, personalization, registry and service share.

It imports nothing of ours, and of others only numpy, Pillow, pydantic and onnxruntime, so that a
picture means the same pixels, a figure the same sum and an answer the same decision on every side.

- `manifest`: `bundle.json`; `model`: `model.onnx`; `folder`: reading and writing both safely.
- `labels`: classes and subgroups; `evaluation`: the counts of a test, from which metrics are computed;
  `consistency`: counts that contradict each other.
- `counting`, `counts`, `score_bins`, `lesion_counts`: the counts that clients send of their predictions, with
  noise or without; `metrics`: every metric, computed from them.
- `pictures`: decoding a picture to the pixels that a model sees, and maps laid over it.
- `skin_tone`: the scales of skin tones, and how light skin looks in a picture.
- `cases`: what a model may be given of a lesion.
- `decision`: from probabilities to the answer a clinician gets; `diagnose`: that, without a service.
- `model_check`: what a graph is refused for.
- `plugins`: tables of parts that other distributions may add to; `text`: names and texts of others, shown.
- `errors`; `page/base.css`: the style that pages of a run and of data share.

`docs/bundle.md` and `docs/metrics.md` describe the files and the metrics.
"""
