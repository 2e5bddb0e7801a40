"""``python -m benchmarks`` names what there is."""

import typer

import benchmarks

typer.echo(benchmarks.__doc__)
