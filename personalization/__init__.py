"""Personalization: one model per subgroup, fine-tuned, selected fairly, and calibrated where the data are."""
