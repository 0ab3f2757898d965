"""The command line `lastack`: wiring, nothing else.

Each command imports what it needs when it runs, so that `lastack --help` does not load Spark. What a person can mend is a
`LastackError`: one line on standard error and its exit code. Anything else is a bug of ours and keeps its stack trace.

Exit codes: 0 done, 1 failed, 2 used wrongly or the machine or the cluster is not as needed.
"""

import sys
from typing import Annotated

import typer

from pipelines import __version__
from pipelines.errors import LastackError

app = typer.Typer(
    help="Measures what a message broker's outage really cost: RTO and RPO per partition, with error bounds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"lastack {__version__}")
        raise typer.Exit


@app.callback()
def lastack(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before a command."""


@app.command()
def doctor() -> None:
    """Say what this machine lacks, and which command supplies it."""
    from pipelines import doctor as machine

    raise typer.Exit(machine.main([]))


def main() -> None:
    """Runs the command line and exits."""
    try:
        app(prog_name="lastack")
    except LastackError as error:
        typer.echo(f"lastack: {' '.join(str(error).split())}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
