"""From calibrators and shifted test data to results."""
