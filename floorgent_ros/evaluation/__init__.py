"""Protocols that compare predictions with the truth."""
