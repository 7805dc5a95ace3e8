"""An audit as one HTML file, read without a network."""
