"""What holds for all tests.

Hypothesis draws the same examples in every run of the same tests, so that a run can be repeated and CI says the same twice; to look for
what nobody has seen yet, set HYPOTHESIS_PROFILE=explore. (`make truth` explores, too, by seed.)
"""

import gc
import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the collector of cycles need not look at it again and again."""
    gc.collect()
    gc.freeze()
