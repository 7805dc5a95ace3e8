"""What is true of a simulated run: from what released what, and from runs with it taken away."""
