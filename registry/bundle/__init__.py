"""What a released model *is*: the part that training, personalization, registry and service share.

It imports nothing of ours, and of others only numpy, Pillow, pydantic and onnxruntime, so that a
picture means the same pixels, a figure the same sum and an answer the same decision on every side.

- `labels`, `picture`: what a model answers with, and what it sees.
- `counts`, `metrics`: what a client tells of its predictions, and every figure computed from it.
- `schema`, `graph`, `folder`: the two files of a bundle, and reading and writing them safely.
- `familiarity`: how far a picture is from those a model was trained on.
- `decision`: from one picture's probabilities to the answer a clinician gets.
- `errors`: all that can go wrong here, as one tree.

`docs/bundle.md` and `docs/metrics.md` describe the files and the figures.
"""
