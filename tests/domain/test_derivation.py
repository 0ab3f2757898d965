"""Whatever a collector wrote, as long as the format allows it: everything is derived, and never an error."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.brokers.simulated import simulate
from pipelines.domain.derivation import derive
from pipelines.domain.facts import Facts
from pipelines.domain.observations import Observation
from pipelines.silver import TABLES
from tests.scenes import Scene
from tests.strategies import SEEDS, any_observations


@given(st.lists(any_observations(), max_size=12))
@settings(max_examples=300)
def test_nonsense_in_well_formed_lines_stops_nothing(observations: list[Observation]) -> None:
    derivation = derive(Facts.of(observations), [])

    for table in TABLES:
        for row in table.rows(derivation):
            assert row[table.column] is not None, "the stream replaces regions by it"


@given(SEEDS, st.lists(any_observations(), max_size=6))
@settings(max_examples=10)
def test_nonsense_beside_a_real_history_stops_nothing(seed: int, observations: list[Observation]) -> None:
    derive(Facts.of([*simulate(seed, incidents=1).observations, *observations]), [])


@given(SEEDS)
@settings(max_examples=6)
def test_every_row_of_silver_has_a_key_of_its_own(seed: int) -> None:
    derivation = derive(Facts.of(simulate(seed).observations), [])

    for table in TABLES:
        rows = list(table.rows(derivation))
        keys = [
            next(row[name] for name in ("finding_id", "outage_id", "window_id", "loss_id", "event_id") if name in row) for row in rows
        ]
        if table.name == "silver.losses":
            keys = [row["loss_id"] for row in rows]
        assert len(set(keys)) == len(keys), table.name


def test_nothing_follows_from_nothing() -> None:
    derivation = Scene().derived()

    assert (derivation.outages, derivation.windows, derivation.losses, derivation.incidents) == ([], [], [], [])
