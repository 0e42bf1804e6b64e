"""The model file, `model.onnx`.

- `header`: its operators, opsets and external weights, read before anything loads it.
- `graph`: loading and running it.
"""
