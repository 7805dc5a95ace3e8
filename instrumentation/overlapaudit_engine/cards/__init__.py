"""What a kernel costs, from the card of a model that is larger than the one that computes."""
