"""Published data sets in their own layouts, and their downloads."""
