"""Files on the command line, and what to say where one is given in another's place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from valuerepair.errors import UsageError
from valuerepair.outputs import FileKind, check_folder, check_output, check_regular

_NET, _STORES = "--net", ("--store", "--db")
# Option, endings of what is given with it, and what that is; of several that a command has, the first.
_PLACES = (
    (_NET, (".pb.gz", ".pb", ".onnx"), "a net"),
    *((option, (".db",), "a store") for option in _STORES),
    ("--split", (".json",), "a split"),
    (
        "--output",
        (".html", ".png", ".svg", ".pdf", ".parquet", ".jsonl", ".csv", ".json", ".epd", ".plain", ".bin"),
        "the file to write",
    ),
)


def misplaced(context: click.Context | None, name: str, options: tuple[str, ...] = ()) -> str | None:
    """What to say of a file `name` that the command has an option for (one of `options`, if any are named); or None."""
    if context is None:
        return None
    for option, endings, what in _PLACES:
        if name.lower().endswith(endings) and (not options or option in options):
            for parameter in context.command.params:
                if isinstance(parameter, click.Option) and option in parameter.opts:
                    return f"{name}: {what} is given as {parameter.opts[0]} {name}"
    return None


class File(click.Path):
    """A file by its name. Whether it is there is said by whoever opens it; the shell completes it."""

    def __init__(self) -> None:
        super().__init__(readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value).startswith(("http://", "https://", "ftp://")):
            raise UsageError(f"{value}: is an address; download it first, then give the file")
        return super().convert(value, param, ctx)


class Output(File):
    """A file to write. What stands in its place is looked at before anything else is done: see `outputs`.

    `kinds` is the kind of file that the command writes, or those it writes by the ending of the name; another ending is
    for the command to refuse. A `regular` file is read again, and therefore no pipe or device.
    """

    def __init__(self, kinds: FileKind | Mapping[str, FileKind], *, regular: bool = False) -> None:
        super().__init__()
        self.kinds, self.regular = kinds, regular

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        ending = os.path.splitext(path)[1].lower().removeprefix(".")
        kind = self.kinds.get(ending) if isinstance(self.kinds, Mapping) else self.kinds
        if kind is not None and ctx is not None and not ctx.resilient_parsing:
            (check_regular if self.regular else check_output)(path, kind)
        return path


class OutputFolder(File):
    """A folder to write to, or to make; what may be in it is for the command to say."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if ctx is not None and not ctx.resilient_parsing:
            check_folder(path)
        return path

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="dir")]


class Archive(File):
    """A file or folder of games or positions: neither a net nor a store."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if said := misplaced(ctx, str(value), (_NET, *_STORES)):
            raise UsageError(said)
        return super().convert(value, param, ctx)
