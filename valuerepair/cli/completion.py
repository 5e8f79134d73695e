"""`vr completion`: the script that teaches a shell to complete `vr`."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and values of vr in a shell.

    Values too: nets by name, nets and deep searches of the store, files. For bash (4.4 or later) put the first line of
    the example into ~/.bashrc, for zsh the second into ~/.zshrc behind compinit, for fish run the third once.

    \b
    Example:
      eval "$(vr completion bash)"
      eval "$(vr completion zsh)"
      vr completion fish > ~/.config/fish/completions/vr.fish
    """
    from click.shell_completion import get_completion_class

    from valuerepair.errors import UsageError

    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"no completion for {shell}")
    # Not source(): that looks for a bash on this machine first, and the script may be for another.
    completion = kind(context.find_root().command, {}, "vr", "_VR_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())
