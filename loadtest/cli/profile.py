"""`kvroute profile`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("profile")
@click.option("--address", default="127.0.0.1:50050", show_default=True, help="A router.")
@click.option("--out", default=Path("profile.json"), show_default=True,
              type=click.Path(path_type=Path), help="Where the profile goes.")  # fmt: skip
@click.option("--longest", default=1024, show_default=True, help="Longest prompt to probe.")
@click.option("--seed", default=0, show_default=True, help="Another one sends other prompts.")
def command(address: str, out: Path, longest: int, seed: int) -> None:
    """Fits a cost profile for `kvroute sim` to a live fleet of one worker.

    \b
    Example:
      kvroute up --workers 1
      kvroute profile --out mine.json
      kvroute sim --workload gsp_random --profile mine.json
    """
    import asyncio

    from kvroute.client import Client
    from loadtest.live.fit import fit_profile
    from loadtest.live.probe import LENGTHS, probe
    from loadtest.live.target import GrpcTarget
    from loadtest.sim.profile import save_profile

    async def measure() -> None:
        async with GrpcTarget(address) as target:
            service = await target.describe()
        lengths = [length for length in LENGTHS if length <= longest]
        async with Client(address, timeout_s=600.0) as client:
            probes = await probe(client, service.vocabulary, lengths=lengths, seed=seed)
        profile = fit_profile(probes)
        save_profile(profile, out)
        click.echo(
            f"prefill {profile.prefill_ms:.4g} ms per token, decode step {profile.step_ms:.4g} ms "
            f"+ {profile.decode_ms:.4g} ms per request; wrote {out}"
        )

    asyncio.run(measure())
