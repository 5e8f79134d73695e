"""For MkDocs: pages that lie outside docs/, notebooks as pages, links to and from them, and the help of all commands.

In the sources links are those that work on a code host, where the repository is read as files.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from valuerepair.cli import cli

# In the site, and where it is in the repository; notebooks join them.
OUTSIDE = {"changelog.md": "CHANGELOG.md", "sample-games.md": "data/README.md"}
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")
IMAGES = {"image/svg+xml": "svg", "image/png": "png"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside docs/: pages as they are, notebooks as pages with their pictures, and to download."""
    root = Path(config.docs_dir).parent
    for uri, source in OUTSIDE.items():
        files.append(File.generated(config, uri, abs_src_path=str(root / source)))
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        uri = f"notebooks/{path.name}"
        files.append(File.generated(config, uri, abs_src_path=str(path)))
        page, pictures = notebook_page(path)
        files.append(File.generated(config, uri.replace(".ipynb", ".md"), content=page))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to what lies outside docs/, and from it, lead to its place in the site."""
    here = page.file.src_uri
    source = here if here.startswith("notebooks/") else OUTSIDE.get(here, f"docs/{here}")
    places = {path: uri for uri, path in OUTSIDE.items()}

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        uri = places.get(target, re.sub(r"^(notebooks/.*)\.ipynb$", r"\1.md", target.removeprefix("docs/")))
        return posixpath.relpath(uri, posixpath.dirname(here) or ".")

    return LINK.sub(moved, markdown) + ("\n".join(helps(cli, "vr")) if here == "cli.md" else "")


def helps(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[str]:
    """The help of a command and of its subcommands, each under a heading."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=100, terminal_width=100)
    yield f"\n## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            if (subcommand := command.get_command(context, child)) is not None:
                yield from helps(subcommand, child, context)


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook with its saved outputs as Markdown, and the pictures in it by name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"], 1):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for kind, content in _outputs(cell):
            if kind == "text":
                parts.append(f"```text\n{str(content).rstrip()}\n```")
            else:
                name = f"{path.stem}-{number}.{kind}"
                pictures[name] = content if isinstance(content, bytes) else content.encode()
                parts.append(f"![What cell {number} shows]({name})")
    download = f'<a href="{path.name}" download>This page as a notebook</a>'
    parts.insert(1, download)
    return "\n\n".join(parts) + "\n", pictures


def _outputs(cell: dict[str, Any]) -> Iterator[tuple[str, str | bytes]]:
    """Of each output the best that a page can show: a picture, else its text."""
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            yield "text", "".join(output["text"])
            continue
        data = output.get("data", {})
        picture = next((kind for kind in IMAGES if kind in data), None)
        if picture is not None:
            content = "".join(data[picture])
            yield IMAGES[picture], base64.b64decode(content) if picture == "image/png" else content
        elif "text/plain" in data:
            yield "text", "".join(data["text/plain"])
