"""Names into classes."""
