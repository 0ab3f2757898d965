"""The command line `lastack`: wiring, nothing else.

Each command imports what it needs when it runs, so that `lastack --help` does not load Spark. What a person can mend is a
`LastackError`: one line on standard error and its exit code. Anything else is a bug of ours and keeps its stack trace.

Exit codes: 0 done, 1 failed, 2 used wrongly or the machine or the cluster is not as needed.
"""

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from typer.exceptions import TyperException

from pipelines import __version__
from pipelines.errors import LastackError, UsageError

app = typer.Typer(
    help="Measures what a message broker's outage really cost: RTO and RPO per partition, with error bounds.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"lastack {__version__}")
        raise typer.Exit


@app.callback()
def lastack(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options that stand before a command."""


@app.command()
def doctor() -> None:
    """Say what this machine lacks, and which command supplies it."""
    from pipelines import doctor as machine

    raise typer.Exit(machine.main([]))


@app.command()
def demo(
    once: Annotated[bool, typer.Option("--once", help="End when the result is printed.")] = False,
    json_path: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON.")] = None,
    home: Annotated[Path | None, typer.Option(help="Keep what is measured in this folder.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the pages; 0 takes a free one.")] = 0,
) -> None:
    """Start a real 3-broker Kafka cluster here, kill a leader, measure the RTO and RPO, serve the pages."""
    from rich.console import Console

    from pipelines import demo as demonstration

    options = demonstration.DemoOptions(is_once=once, json_path=json_path, home=home, port=port)
    demonstration.run(options, Console())


@app.command()
def rebuild(
    source: Annotated[str, typer.Option("--from", help="What is taken for true: bronze, the observations.")],
    home: Annotated[Path, typer.Option(help="The installation; its stream must not run.")],
    check: Annotated[
        bool, typer.Option("--check", help="Say what would change, and write nothing; exit code 1 if anything would.")
    ] = False,
    json_path: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every difference as JSON.")] = None,
) -> None:
    """Derive silver and gold again, and say every difference."""
    from rich.console import Console

    from pipelines.rebuilding import command

    raise typer.Exit(command(source, home, Console(), is_check=check, json_path=json_path))


@app.command()
def derive(
    landing: Annotated[Path, typer.Argument(help="A folder of finished files in the landing format; it is only read.")],
    json_path: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON.")] = None,
    home: Annotated[Path | None, typer.Option(help="Keep the tables in this folder, for the pages.")] = None,
) -> None:
    """Say which outages and losses follow from observations that any collector wrote (docs/landing-format.md)."""
    from rich.console import Console

    from pipelines.landed import command

    raise typer.Exit(command(landing, Console(), home=home, json_path=json_path))


@app.command()
def measure(  # noqa: PLR0913, PLR0917 - one argument an option
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT[,..]", help="Addresses of brokers.")],
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long to measure: 90s, 2m, 1h30m; 10s at least.")],
    command_config: Annotated[Path | None, typer.Option(help="A client.properties, as Kafka's own tools take it.")] = None,
    jolokia: Annotated[list[str] | None, typer.Option(metavar="URL", help="A broker's Jolokia agent; may be repeated.")] = None,
    controller: Annotated[list[str] | None, typer.Option(metavar="HOST:PORT", help="A controller's listener; may be repeated.")] = None,
    controller_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A client.properties for the controllers, where it is another one.")
    ] = None,
    metadata_log: Annotated[Path | None, typer.Option(metavar="DIR", help="A node's __cluster_metadata-0 folder.")] = None,
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOST:PORT[,..][/CHROOT]", help="In ZooKeeper mode: the brokers' zookeeper.connect.")
    ] = None,
    json_path: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON.")] = None,
    home: Annotated[Path | None, typer.Option(help="Keep what is measured in this folder.")] = None,
    period: Annotated[str, typer.Option(metavar="DURATION", help="Time between probes, 10ms at least.")] = "100ms",
    probers: Annotated[int, typer.Option(min=1, max=9, help="How many probers ask, each a process of its own.")] = 1,
    yes: Annotated[bool, typer.Option("--yes", help="Alter canary topics that exist and do not fit.")] = False,
    # Hidden as long as there is only one. Nobody else assumes a system.
    system: Annotated[str, typer.Option(help="Which broker system it is.", hidden=True)] = "kafka",
) -> None:
    """Measure a Kafka cluster that is not ours, once, without a config file."""
    from rich.console import Console

    from pipelines.brokers.base import ClusterPlace
    from pipelines.durations import seconds
    from pipelines.measure import LONGEST_SECONDS, SHORTEST_SECONDS, MeasureOptions, run

    settings = {
        "controllers": tuple(controller or ()),
        "controller_config": () if controller_config is None else (str(controller_config),),
        "metadata_log": () if metadata_log is None else (str(metadata_log),),
        "zookeeper": () if zookeeper is None else (zookeeper,),
    }
    options = MeasureOptions(
        place=ClusterPlace(
            system=system,
            bootstrap=bootstrap,
            command_config=command_config,
            metrics=tuple(jolokia or ()),
            settings={name: values for name, values in settings.items() if values},
        ),
        for_seconds=seconds("--for", for_, least=SHORTEST_SECONDS, most=LONGEST_SECONDS),
        json_path=json_path,
        home=home,
        period_ms=round(1000 * seconds("--period", period, least=0.01, most=10.0)),
        may_alter=yes,
        probers=probers,
    )
    run(options, Console())


@app.command()
def drill(
    name: Annotated[str, typer.Argument(help="A drill by its name; `list` prints the names, `all` runs every drill.")],
    mode: Annotated[str | None, typer.Option(help="kraft or zookeeper; the drill's first one when not given.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the verdict as JSON.")] = None,
    home: Annotated[Path | None, typer.Option(help="Keep what is measured in this folder.")] = None,
    results: Annotated[Path, typer.Option(help="Where `all` writes results.json and junit.xml.")] = Path("build/drills"),
    fresh: Annotated[bool, typer.Option("--fresh", help="With `all`: forget earlier results.")] = False,
) -> None:
    """Hurt a real Kafka cluster here, measure it, and judge what was measured by independent witnesses."""
    from rich.console import Console

    from pipelines.drills import command

    options = command.DrillOptions(name=name, mode=mode, json_path=json_path, home=home, folder=results, fresh=fresh)
    command.run(options, Console())


@app.command()
def dashboard(
    home: Annotated[Path, typer.Option(help="The folder of the installation to show.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on loopback; 0 takes a free one.")] = 8050,
) -> None:
    """Serve the pages, /metrics and /healthz of an installation."""
    from dashboards.server import serve

    serve(home, "127.0.0.1", port)


@app.command(hidden=True)
def collect(name: str, config: Path) -> None:
    """Run one collector from its configuration file: canary, watch, metrics or control-plane."""
    from pipelines import collecting

    collecting.run(name, _text(config))


@app.command(hidden=True)
def stream(config: Path) -> None:
    """Run the stream from its configuration file."""
    from pipelines import streaming

    streaming.main(streaming.StreamConfig.from_json(_text(config)))


def _text(config: Path) -> str:
    try:
        return config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{config}: cannot be read: {said}; expected a configuration in JSON") from error


def _end(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> None:
    """Runs the command line and exits."""
    # Ctrl-C and a polite end unwind what was started, also where a shell started us in the background, with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _end)
    try:
        # Not standalone: what is wrong with an option is one line of ours, as every other error.
        sys.exit(app(args=sys.argv[1:] or ["--help"], prog_name="lastack", standalone_mode=False))
    except TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "lastack"
        typer.echo(f"lastack: {' '.join(error.format_message().split())} ({command} --help)", err=True)
        sys.exit(error.exit_code)
    except LastackError as error:
        said = "; ".join([str(error), *getattr(error, "__notes__", [])])
        typer.echo(f"lastack: {' '.join(said.split())}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
