"""The types of files on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from valuerepair.errors import UsageError
from valuerepair.outputs import FileKind, check_folder, check_output, check_regular


class File(click.Path):
    """The name of a file, which the shell completes. Code that opens the file reports if it is missing."""

    def __init__(self) -> None:
        super().__init__(readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value).startswith(("http://", "https://", "ftp://")):
            raise UsageError(f"{value}: is an address; download it first, then give the file")
        return super().convert(value, param, ctx)


class Output(File):
    """A file to write. An existing file of this name is checked before the command begins: see `outputs`.

    `kinds` is the kind of file that the command writes, or its kinds by the ending of the name; the command itself
    rejects other endings. A `regular` file is read again later, so it must not be a pipe or a device.
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
    """A folder to write to, or to make; the command itself checks what is in it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if ctx is not None and not ctx.resilient_parsing:
            check_folder(path)
        return path
