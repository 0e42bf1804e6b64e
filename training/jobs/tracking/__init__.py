"""Curves of a run in TensorBoard or MLflow, from what it logs.

- `tracked`: starts the trackers of a job; `follower`: reads the log and feeds them
- `tensorboard`, `mlflow`: one tracker each; `figures`: what is drawn
"""
