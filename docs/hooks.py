"""For MkDocs: pages that lie outside docs/, and links to and from them.

In the sources links are those that work on a code host, where the repository is read as files.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# In the site, and where it is in the repository.
OUTSIDE = {"changelog.md": "CHANGELOG.md", "sample-games.md": "data/README.md"}
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of `OUTSIDE`, and the notebooks as files to download."""
    root = Path(config.docs_dir).parent
    notebooks = {f"notebooks/{path.name}": f"notebooks/{path.name}" for path in sorted(root.glob("notebooks/*.ipynb"))}
    for uri, source in {**OUTSIDE, **notebooks}.items():
        files.append(File.generated(config, uri, abs_src_path=str(root / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to what lies outside docs/, and from it, lead to its place in the site."""
    here = page.file.src_uri
    source = OUTSIDE.get(here, f"docs/{here}")

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        places = {path: uri for uri, path in OUTSIDE.items()}
        uri = places.get(target, target.removeprefix("docs/"))
        return posixpath.relpath(uri, posixpath.dirname(here) or ".")

    return LINK.sub(moved, markdown)
