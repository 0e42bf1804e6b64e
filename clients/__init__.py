"""What runs at a hospital: its data, what it keeps between rounds, and its node in a federation."""
