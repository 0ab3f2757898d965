"""What holds for all tests.

Hypothesis draws the same examples in every run of the same tests, so that a run can be repeated and CI says the same twice; to look for
what nobody has seen yet, set HYPOTHESIS_PROFILE=explore. (`make truth` explores, too, by seed.)
"""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
