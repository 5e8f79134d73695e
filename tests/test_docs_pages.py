"""What the pages say can be done: commands that parse, Python that compiles and imports, links that lead somewhere.

Links are those of a code host, where README.md and docs/ are read as files; the site is built from the same pages by
`mkdocs build --strict` (.ci/run), which checks them again in its own way.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from tests.cli_tree import parse

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "data/README.md", "tests/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
# Shell words that begin another command.
_NEXT = {"|", "||", "&", "&&", ";"}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in FENCE.findall(page.read_text("utf-8")) if language in languages]


def prose(page: Path) -> str:
    """The page without its code."""
    return re.sub(r"`[^`\n]+`", "`code`", FENCE.sub("", page.read_text("utf-8")))


# -- commands ---------------------------------------------------------------------------------------------------------


def split_calls(line: str) -> list[list[str]]:
    """The arguments of every `vr` in a line of shell."""
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    calls: list[list[str]] = [[]]
    for word in lexer:
        if word in _NEXT or set(word) <= set("()"):
            calls.append([])
        else:
            calls[-1].append(word)
    of_vr = [call for call in calls if call and call[0].rpartition("/")[2] == "vr"]
    return [call[1 : next((i for i, word in enumerate(call) if word in ("<", ">", ">>")), None)] for call in of_vr]


def block_calls() -> list[tuple[str, list[str]]]:
    calls = []
    for page in PAGES:
        lines = [
            line for text in blocks(page, "sh", "bash", "console") for line in text.replace("\\\n", " ").splitlines()
        ]
        shown = [line for text in blocks(page, "text") for line in text.splitlines()]
        lines += [line[line.index("vr ") :] for line in shown if line.startswith(("$ vr ", "next: vr "))]
        calls += [(name(page), call) for line in lines for call in split_calls(line)]
    return calls


def inline_calls() -> list[tuple[str, list[str]]]:
    """Commands within a sentence, which may leave out what is not spoken of; the changelog names old ones, too."""
    calls = []
    for page in [page for page in PAGES if page.name != "CHANGELOG.md"]:
        for text in re.findall(r"`(vr [^`\n]+)`", FENCE.sub("", page.read_text("utf-8"))):
            calls += [(name(page), call) for call in split_calls(re.sub(r"\\?\|.*|…", "", text).replace("'", ""))]
    return calls


def misused(calls: list[tuple[str, list[str]]], *forgiven: type[Exception]) -> list[str]:
    """The calls that `vr` would refuse, and why."""
    wrong = []
    for page, call in calls:
        try:
            parse(call)
        except forgiven:
            continue
        except click.exceptions.Exit:  # of --help
            continue
        except (click.UsageError, AssertionError) as error:
            # An option may be named in a sentence without its value.
            if not (forgiven and isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message):
                wrong.append(f"{page}: vr {' '.join(call)}: {error}")
    return wrong


def test_commands_of_blocks_parse() -> None:
    calls = block_calls()
    assert len(calls) > 50
    wrong = misused(calls)
    assert not wrong, "\n".join(wrong)


def test_blocks_of_shell_are_read_by_bash() -> None:
    """Without running them: brackets, quotes and pipes are where a shell takes them."""
    for page in PAGES:
        for text in blocks(page, "sh", "bash"):
            done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, ""), f"{name(page)}\n{text}"


def test_commands_in_sentences_exist_with_their_options() -> None:
    calls = inline_calls()
    assert len(calls) > 50
    wrong = misused(calls, click.MissingParameter, click.exceptions.NoArgsIsHelpError)
    assert not wrong, "\n".join(wrong)


# -- Python -----------------------------------------------------------------------------------------------------------


def missing_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("valuerepair"):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name):
                    yield f"{node.module} has no {alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)


def test_python_compiles_and_finds_what_it_imports() -> None:
    texts = [(name(page), text) for page in PAGES for text in blocks(page, "python", "py", "pycon")]
    assert len(texts) > 10
    wrong = []
    for page, text in texts:
        if text.lstrip().startswith(">>>"):
            text = "".join(line[4:] + "\n" for line in text.splitlines() if line.startswith((">>>", "...")))
        try:
            wrong += [f"{page}: {missing}" for missing in missing_imports(ast.parse(text, page))]
        except (SyntaxError, ImportError) as error:
            wrong.append(f"{page}: {error!r}\n{text}")
    assert not wrong, "\n".join(wrong)


def test_the_reference_names_what_exists() -> None:
    """Modules, and classes and functions of modules."""
    text = (ROOT / "docs" / "modules.md").read_text("utf-8")
    for name in re.findall(r"^::: (\S+)$", text, re.M):
        module, _, member = name.rpartition(".")
        assert importlib.util.find_spec(module) is not None, name
        assert hasattr(importlib.import_module(module), member) or importlib.util.find_spec(name), name


# -- links ------------------------------------------------------------------------------------------------------------


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that a code host gives the headings of a page."""
    slugs: list[str] = []
    for heading in re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", page.read_text("utf-8")), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        times = sum(re.fullmatch(re.escape(slug) + r"(-\d+)?", earlier) is not None for earlier in slugs)
        slugs.append(f"{slug}-{times}" if times else slug)
    return frozenset(slugs)


def broken_links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        target_page = (page.parent / path) if path else page
        inside = target_page.resolve().is_relative_to(ROOT) and target_page.exists()
        if not inside or (anchor and anchor not in anchors(target_page.resolve())):
            yield target


def test_links_and_anchors_lead_somewhere() -> None:
    assert not [(name(page), target) for page in PAGES for target in broken_links(page)]


# Pages that are spoken of and lie elsewhere: whose they are.
ELSEWHERE = {
    "docs/OperatorKernels.md": "ONNX Runtime",
    "docs/operators.md": "onnx-tensorrt",
    "docs/example.textproto": "lczero-training",
    "wrong.md": "made by a test",
}
_CITED = re.compile(r'(?<![\w/-])(docs/[\w/.-]*\w|[\w-]+\.md\b)(?:, "([^"]+)")?')


def cited(text: str) -> Iterator[tuple[Path, str | None, str]]:
    """Pages that a text names, with the section where one is given and how it is written; lines of comments are one."""
    for match in _CITED.finditer(re.sub(r"\s*\n\s*#?\s*", " ", text)):
        written, section = match.groups()
        if written not in ELSEWHERE:
            here = [ROOT / written, *(page for page in PAGES if page.name == written)]
            yield next((path for path in here if path.exists()), here[0]), section, match.group()


def test_pages_and_sections_that_are_cited_exist() -> None:
    files = {
        path
        for pattern in ("valuerepair/**/*.py", "tests/**/*.py", "benchmarks/*.py", "data/*.py")
        for path in ROOT.glob(pattern)
    }
    files |= {path for path in (ROOT / ".ci").iterdir() if path.is_file()} | set(PAGES)
    missing = []
    for file in sorted(files):
        for page, section, written in cited(file.read_text("utf-8")):
            heading = rf"^#+ {re.escape(section)}$" if section else ""
            if not page.exists() or not re.search(heading, page.read_text("utf-8") if section else "", re.M):
                missing.append((name(file), written))
    assert not missing


def test_modules_and_names_of_the_architecture_exist() -> None:
    missing = []
    for path, member in re.findall(
        r"`([\w/]+\.py)(?::(\w+))?`", (ROOT / "docs" / "architecture.md").read_text("utf-8")
    ):
        file = next((folder / path for folder in (ROOT / "valuerepair", ROOT) if (folder / path).exists()), None)
        if file is None or not re.search(rf"^(def |class )?{member}\b", file.read_text("utf-8"), re.M):
            missing.append(f"{path}:{member}")
    assert not missing
