"""What the registry holds, as text and tables, escaped in one place: for terminals, cards and pages."""
