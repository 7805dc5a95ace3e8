"""GPUs as data: what each is made of, and where each figure is from."""
