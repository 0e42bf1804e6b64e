"""The model file, `model.onnx`.

- `header`: its operators, opsets and external weights, read before anything loads it.
- `session`: ONNX Runtime's session of it, on the processor or another device; `graph`: loading and running
  it.
- `promise`, `probe_inputs`, `probe_answers`: what its manifest says, drawn pictures to hold it to that, and
  what is wrong with its answers.
"""
