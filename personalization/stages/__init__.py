"""The stages of a job that belong to personalization."""
