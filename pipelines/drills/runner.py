"""How is one drill run? A fresh cluster is measured exactly as `lastack measure` does it, hurt, healed, and judged.

In order: lab, topics, stream and collectors, witnesses; the steady state must hold; the method's steps, each done, verified and logged;
the rollbacks; everything in sync and served again; witnesses ended, disks read; collectors ended, then the stream, which reads the
canaries back a last time; then gold is read and the judge speaks. Whatever happens, nothing is left running. Where a claim does not
hold, or something fails, the evidence stays in one folder: the lakehouse, the brokers' logs, the injector's log, the witnesses' logs,
and the history that can be judged again.

Example: `run(load("leader-killed"), "kraft", home, say)` is a Verdict with 14 claims, all of which hold, after 95 s.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from pipelines import ddl
from pipelines.collect.canary.config import written_topics
from pipelines.domain.clock import Anchor
from pipelines.drills import conditions, faults, judge, targets
from pipelines.drills.actions import Done
from pipelines.drills.claims import Claim
from pipelines.drills.context import Context
from pipelines.drills.expectations import judge as judge_expectation
from pipelines.drills.history import Act, History, Row, Witnessed, row_of
from pipelines.drills.plan import Drill, Step
from pipelines.drills.records import CanaryAcks, Placement
from pipelines.drills.witness import SETTINGS, Witness, consumed, stored
from pipelines.errors import LabError
from pipelines.lab import Lab
from pipelines.measuring import STEADY_SECONDS, Measurement
from pipelines.parts import MeasuredCluster, collectors, further_probers, mark_fault, stream
from pipelines.serving import Serving
from pipelines.settings import Home

STREAM_SECONDS = 300.0
START_SECONDS = 240.0
SETTLE_SECONDS = 180.0
EVIDENCE = "drill"
LAYERS = ("silver.", "gold.")
OBSERVATIONS = "bronze.observations"
WRITTEN_LANES = ("raw", "client")
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a drill."""

    drill: str
    mode: str
    claims: tuple[Claim, ...]
    seconds: float
    rto_ms: tuple[float, float] | None
    lost_records: int
    rpo_ms: tuple[float, float | None] | None

    @property
    def is_met(self) -> bool:
        """Every claim holds."""
        return all(one.holds for one in self.claims)


def run(drill: Drill, mode: str, home: Home, say: Callable[[str], None]) -> Verdict:
    """Runs a drill and judges it. Raises LastackError where it cannot be run as it is written."""
    began = time.monotonic()
    folder = home.path / EVIDENCE
    folder.mkdir(parents=True, exist_ok=True)
    history = _Run(drill, mode, home, say).history()
    (folder / "history.json").write_text(json.dumps(history.document(), separators=(",", ":")), encoding="utf-8")
    claims = tuple(claims_of(drill, history))
    (folder / "claims.txt").write_text("".join(f"{one.line}\n" for one in claims), encoding="utf-8")
    return _verdict(drill, history, claims, time.monotonic() - began)


def claims_of(drill: Drill, history: History) -> list[Claim]:
    """What every drill is asked, then what this one expects."""
    expected = [one for one in drill.expect if not one.modes or history.mode in one.modes]
    return [*judge.always(history, drill.coverage), *(judge_expectation(one, history) for one in expected)]


class _Run:
    def __init__(self, drill: Drill, mode: str, home: Home, say: Callable[[str], None]) -> None:
        self.drill = drill
        self.mode = mode
        self.home = home
        self.say = say
        self.anchor = Anchor.now()
        self.folder = home.path / EVIDENCE
        self.acts: list[Act] = []
        self.steady_at_us = 0
        self.clock_error_us = 0

    def history(self) -> History:
        """Runs it from the first broker's start to the last row of gold."""
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(self.drill.spec(self.mode), anchor=self.anchor, say=self.say))
            measurement = stack.enter_context(Measurement(self.home, self.say, lab.command_prefix))
            context = Context(lab, measurement, self.anchor, self.folder / "injector.jsonl", self.folder)
            stack.callback(self._keep_logs, lab)
            stack.callback(_close, context)
            cluster = self._start(context)
            self._steady(context)
            for step in self.drill.method:
                self._step(context, cluster, step)
            for step in self.drill.rollbacks:
                self._step(context, cluster, step)
            return self._end(context, cluster)

    # --- before -------------------------------------------------------------------------------------------------------

    def _start(self, context: Context) -> MeasuredCluster:
        lab = context.lab
        watched = {witness.topic for witness in self.drill.witnesses}
        for topic in self.drill.topics:
            settings = {**(SETTINGS if topic.name in watched else {}), **topic.settings}
            if topic.assignment:
                lab.admin.create_assigned_topic(topic.name, [list(row) for row in topic.assignment], settings)
            else:
                lab.admin.create_topic(topic.name, topic.partitions, topic.replicas, settings)
        cluster = MeasuredCluster(lab.place, lab.admin.cluster_id())
        context.measurement.start(stream(self.home, cluster, self.anchor))
        for part in collectors(self.home, cluster, self.anchor):
            context.measurement.start(part)
        # The witnesses after the stream, which needs the processors for itself when it starts.
        context.measurement.wait(context.measurement.is_streaming, STREAM_SECONDS, "the stream's first batch")
        for part in further_probers(self.home, cluster, self.anchor, self.drill.probers):
            context.measurement.start(part, prefix=())
        for plan in self.drill.witnesses:
            witness = Witness(plan.topic, plan.acks, plan.rate, self.folder)
            context.witnesses[plan.topic] = witness
            witness.start(lab.bootstrap, lab.command_prefix, reads=plan.reads)
        return cluster

    def _steady(self, context: Context) -> None:
        context.step_began_at_us = self.anchor.now_us()
        self._wait(context, self.drill.steady_state, START_SECONDS)
        # Only then: witnesses that start, a JVM each, can hold up acks=all on a small machine for longer than lambda.
        context.measurement.wait_steady(START_SECONDS)
        # It has been served for as long as that; from then on nothing may go wrong by itself.
        self.steady_at_us = self.anchor.now_us() - int(STEADY_SECONDS * 1e6)
        self._measure_clock()
        context.write({"record": "steady", "at_us": self.steady_at_us, "placement": context.look()})

    # --- steps --------------------------------------------------------------------------------------------------------

    def _step(self, context: Context, cluster: MeasuredCluster, step: Step) -> None:
        context.step_began_at_us = self.anchor.now_us()
        if step.action is not None:
            self._act(context, cluster, step)
            # Conditions speak of what follows the action.
            context.step_began_at_us = self.anchor.now_us()
        self._wait(context, step.until, step.within_seconds)

    def _act(self, context: Context, cluster: MeasuredCluster, step: Step) -> None:
        action = faults.ACTIONS[step.action or ""]
        nodes = targets.resolve(context, step.target) if step.target else []
        if step.role:
            context.roles[step.role] = list(nodes)
        label = step.role or step.action or ""
        placement = context.look()
        names = ", ".join(node.name for node in nodes)
        self.say(f"{step.action} {names}".strip() + (f" ({step.target})" if step.target and step.target != names else ""))
        done = action.run(context, nodes, step.arguments)
        for one in done:
            self._record(context, cluster, one, label, placement, stops=action.stops)

    def _record(self, context: Context, cluster: MeasuredCluster, one: Done, label: str, placement: Placement, *, stops: bool) -> None:
        act = Act(one.action, one.target, label, one.before_at_us, one.after_at_us, one.verified_at_us, stops, placement)
        self.acts.append(act)
        context.write({"record": "action", **row_of({name: getattr(act, name) for name in act.__slots__ if name != "placement"})})
        context.write({"record": "placement", "label": label, "placement": placement})
        mark_fault(self.home, cluster, self.anchor, "drill", one.action, one.target, (one.before_at_us, one.verified_at_us))

    def _wait(self, context: Context, texts: tuple[str, ...], seconds: float) -> None:
        """Until all conditions hold at once; a witness that has died is no witness."""
        for text in texts:

            def holds(text: str = text) -> bool:
                for witness in context.witnesses.values():
                    witness.check()
                return conditions.holds(context, text)

            context.measurement.wait(holds, seconds, text)
            context.write({"record": "condition", "condition": text, "held_at_us": self.anchor.now_us(), "placement": context.look()})

    # --- after --------------------------------------------------------------------------------------------------------

    def _end(self, context: Context, cluster: MeasuredCluster) -> History:
        measurement, lab = context.measurement, context.lab
        self.say("settling: waiting for every replica, and for every partition to be served")
        lab.wait_until_in_sync(SETTLE_SECONDS)
        measurement.wait_steady(SETTLE_SECONDS)
        for witness in context.witnesses.values():
            witness.check()
            witness.stop()
        self._measure_clock()
        self.say("ending the collectors, and letting the stream take in the rest")
        for name in [name for name in measurement.children if name != "stream"]:
            measurement.stop(name)
        measurement.stop("stream")
        written = tuple(written_topics(cluster.lanes))
        there = lab.admin.topics()
        compacted = {topic.name for topic in self.drill.topics if "compact" in topic.settings.get("cleanup.policy", "")}
        on_disk = stored(lab, [topic for topic in (*context.witnesses, *written) if topic in there], self.folder)
        return History(
            drill=self.drill.name,
            mode=self.mode,
            cluster_id=cluster.cluster_id,
            steady_at_us=self.steady_at_us,
            ended_at_us=self.anchor.now_us(),
            clock_error_us=self.clock_error_us,
            acts=tuple(self.acts),
            roles={role: [str(node.node_id) for node in nodes] for role, nodes in context.roles.items()},
            witnesses=tuple(
                Witnessed(
                    one.topic,
                    one.acks,
                    tuple(one.acknowledged()),
                    tuple(on_disk.get(one.topic, ())),
                    one.failed,
                    is_read=one.topic in on_disk,
                    is_compacted=one.topic in compacted,
                    consumed=tuple(consumed(one.consumer_log_path)),
                )
                for one in context.witnesses.values()
            ),
            tables=self._tables(cluster.cluster_id),
            canaries={topic: on_disk[topic] for topic in written if topic in on_disk},
            canary_acks=tuple(self._canary_acks(cluster.cluster_id)),
        )

    def _tables(self, cluster_id: str) -> dict[str, list[Row]]:
        with Serving(self.home).snapshot() as snapshot:
            return {
                table: [row_of(row) for row in snapshot.whole(table, cluster_id)]
                for table in ddl.table_names()
                if table.startswith(LAYERS)
            }

    def _canary_acks(self, cluster_id: str) -> Iterator[CanaryAcks]:
        """What our own prober wrote down as acknowledged, in time or late, superseded forms of a run included."""
        with Serving(self.home).snapshot() as snapshot:
            for row in snapshot.whole(OBSERVATIONS, cluster_id):
                is_acked = row["record"] == "late_acks" or (row["record"] == "probes" and row["outcome"] == "ACKED")
                if is_acked and row["lane"] in WRITTEN_LANES and row["first_position"] is not None:
                    sequences = (row["first_sequence"], row["last_sequence"])
                    yield CanaryAcks(row["resource"], row["shard"], row["boot_id"], *sequences, int(row["first_position"]))

    def _measure_clock(self) -> None:
        """How far the wall clock, which the witnesses and brokers read, is from the clock of the collectors."""
        error = min(abs(self.anchor.now_us() - time.time_ns() // 1000) for _ in range(5))
        self.clock_error_us = max(self.clock_error_us, error)

    def _keep_logs(self, lab: Lab) -> None:
        try:
            lab.keep_logs(self.folder / "brokers")
        except (LabError, OSError, shutil.Error) as error:
            self.say(f"the brokers' logs could not be kept: {error}")


def _close(context: Context) -> None:
    for witness in context.witnesses.values():
        witness.close()


def _verdict(drill: Drill, history: History, claims: tuple[Claim, ...], seconds: float) -> Verdict:
    """The worst outage of the raw lanes, and what was lost, for the table."""
    since = min((act.before_at_us for act in history.acts), default=0)
    rows = [
        row
        for row in history.rows("gold.outages")
        if row["lane"] == "raw" and (row["started_at_max"] or 0) >= since and row["rto_ms_max"] is not None
    ]
    worst = max(rows, key=lambda row: row["rto_ms_min"], default=None)
    lost = [row for row in history.rows("gold.losses") if row["verdict"] == "LOST"]
    longest = max(lost, key=lambda row: row["rpo_ms_min"], default=None)
    return Verdict(
        drill.name,
        history.mode,
        claims,
        seconds,
        None if worst is None else (worst["rto_ms_min"], worst["rto_ms_max"]),
        sum(row["records_min"] for row in lost),
        None if longest is None else (longest["rpo_ms_min"], longest["rpo_ms_max"]),
    )
