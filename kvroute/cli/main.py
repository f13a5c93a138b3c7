"""The entry point: finds the subcommand, and turns errors into one line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from kvroute import __version__
from kvroute.cli.lazy import Entry, LazyGroup

COMMANDS = {
    "demo": Entry("kvroute.cli.demo", "Two workers and a real model: see prefix routing pay off."),
    "up": Entry("kvroute.cli.up", "Start everything on this machine and watch it."),
    "generate": Entry("kvroute.cli.generate", "Generate from one prompt, streaming."),
    "chat": Entry("kvroute.cli.chat", "Talk to a model; the history stays cached."),
    "status": Entry("kvroute.cli.status", "Show models, workers and their caches."),
    "explain": Entry("kvroute.cli.explain", "Say why a request went where it went."),
    "router": Entry("kvroute.cli.router", "Run a router."),
    "sim": Entry("loadtest.cli.sim", "Simulate a fleet: what a policy or evictor would do."),
    "loadtest": Entry("loadtest.cli.loadtest", "Load a live router; measure what clients see."),
    "profile": Entry("loadtest.cli.profile", "Fit the simulator's cost profile to a live worker."),
    "report": Entry("loadtest.cli.report", "Draw what sim and loadtest measured."),
    "worker": Entry("kvroute.cli.worker", "Run a worker: one replica of a model."),
    "weights": Entry("kvroute.cli.weights", "Show or forget what was learned of each worker."),
    "audit": Entry("kvroute.cli.audit", "Check what routers believe against every worker."),
    "bench": Entry("kvroute.cli.bench.main", "Measure the parts, beside rivals where asked."),
}


@click.group(
    cls=LazyGroup, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="kvroute")
def cli() -> None:
    """Serves HuggingFace models behind a router that knows what every worker has cached.

    \b
    See it work:          kvroute demo
    Start a small fleet:  kvroute up --workers 2
    Use it:               kvroute generate "The capital of France is"
                          kvroute chat
                          kvroute status

    \b
    In production, run the parts yourself, against your own Redis or Valkey:
      kvroute worker --model DIR_OR_NAME --redis-url redis://HOST:6379 --listen 0.0.0.0:50061
      kvroute router --redis-url redis://HOST:6379 --listen 0.0.0.0:50050

    Every option is also an environment variable (KVROUTE_<COMMAND>_<OPTION>) and a key of the
    table [<command>] in a TOML file (--config FILE); the option on the command line wins.
    """


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits: 0 done, 1 failed (one line says why), 2 wrong usage."""
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code. Errors made by kvroute become one line."""
    try:
        result = cli.main(args=args, prog_name="kvroute", standalone_mode=False)
    except click.exceptions.Abort:
        return 128 + signal.SIGINT
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except BrokenPipeError:
        # The reader of our output left (`kvroute status | head`): nothing to say, nobody to hear.
        sys.stdout = None
        return 128 + signal.SIGPIPE
    except Exception as error:
        # Importing the error tree costs 0.1 s (gRPC), which a plain --help need not pay.
        from kvroute.errors import KvrouteError

        if not isinstance(error, KvrouteError):
            raise
        click.echo("kvroute: " + " ".join(str(error).split()), err=True)
        return 1
    return result if isinstance(result, int) else 0
