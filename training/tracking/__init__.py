"""Curves of a run in TensorBoard or MLflow, from what it logs."""
