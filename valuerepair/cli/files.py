"""The types of files on the command line."""

from __future__ import annotations

from typing import Any

import click

from valuerepair.files import check_folder, check_input, check_output


class File(click.Path):
    """The name of a file. Code that opens the file reports if it is missing."""

    def __init__(self) -> None:
        super().__init__(readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        check_input(str(value))
        return super().convert(value, param, ctx)


class Output(File):
    """A file to write, checked before the command begins: see `valuerepair.files`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if ctx is not None and not ctx.resilient_parsing:
            check_output(path)
        return path


class OutputFolder(File):
    """A folder to write to, or to make; the command itself checks what is in it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if ctx is not None and not ctx.resilient_parsing:
            check_folder(path)
        return path
