"""Samples from simulated observations, and the training loop."""
