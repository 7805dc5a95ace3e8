"""The reference engine, and the GPUs it runs on: real ones, or virtual ones that tell the truth."""
