"""A federation of hospitals: who is in it, the kits that they get, and jobs that are sent to it."""
