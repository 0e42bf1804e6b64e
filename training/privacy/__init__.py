"""What leaves a client is less than it knows: masks that hide it in a sum, and noise that hides it at all."""
