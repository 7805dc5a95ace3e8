"""What a trace is; knows nothing of the rest."""
