"""What varies from one instance to the next, keyed by the work and never by the order of asking."""
