"""Devices: on what the models run, a GPU or the processor, and how many threads one of them takes.

- `kinds`: the devices there are, and what ONNX Runtime is told for each; `runtime`: ONNX Runtime itself.
- `trial`: whether one works here, tried with a small graph; `choosing`: the one that is taken, and why.
- `device`: opening models on it; `bound_session`: one run, inputs and outputs bound; `placement`: which
  nodes stay on the processor all the same.
- `parity`: its answers beside the processor's; `threads`: how many threads a lone picture gets.
- `models`: all of it, for the model of a bundle.
"""
