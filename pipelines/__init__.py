"""Lastack's pipeline: from brokers to gold, one way."""

__version__ = "0.1.0"
