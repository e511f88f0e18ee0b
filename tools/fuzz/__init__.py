"""Fuzzing of every reader of files: mutated files are read, or refused with an error of driftcal."""
