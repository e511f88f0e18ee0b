"""Calibrators whose map follows a window of recent unlabelled inputs."""
