"""Made-up skin lesions: for demonstrations and tests that need pictures but no patients."""
