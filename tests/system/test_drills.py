"""A handful of drills on real clusters: what `make drills` runs in full, each judged by its own witnesses."""

import pytest

from pipelines.drills import plan
from pipelines.drills.runner import run
from pipelines.settings import Home

pytestmark = pytest.mark.system

HANDFUL = (("leader-killed-two-probers", "kraft"), ("unclean-election", "kraft"), ("leader-killed", "zookeeper"))


@pytest.mark.parametrize(("name", "mode"), HANDFUL)
def test_a_drill_meets_every_claim(name, mode, tmp_path):
    said = []
    verdict = run(plan.load(name), mode, Home(tmp_path), said.append)
    assert [one.line for one in verdict.claims if not one.holds] == []
    assert verdict.rto_ms is not None
