"""What the GPU did, in numbers."""
