"""What the inputs of a model may be: images, pandas data frames, texts, and dictionaries of arrays."""
