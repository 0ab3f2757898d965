"""Drills: faults on real clusters, and what Lastack says of them held against the injector and independent witnesses."""
