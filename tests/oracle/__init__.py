"""Judges that share no code with the product: a naive reader, perturbed copies, nsys itself."""
