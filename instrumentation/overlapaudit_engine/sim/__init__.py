"""A deterministic discrete-event model of GPUs, their host threads, and the CUDA runtime."""
