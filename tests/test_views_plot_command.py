"""Every kind of plot by its command: files, words, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from matplotlib.image import imread

from tests.climbing_doubles import THRESHOLD
from tests.figure_parts import has
from tests.mining_doubles import mine_by_key, random_games
from tests.plotted_store import OF_POSITIONS
from valuerepair.cli import cli
from valuerepair.errors import UsageError, ValueRepairError
from valuerepair.report import figures, style
from valuerepair.store.store import Store


@pytest.fixture(scope="module")
def db(plotted_db: Path) -> Path:
    return plotted_db


OF_STORE = [name for name, kind in figures.KINDS.items() if kind.reads == figures.STORE]


@pytest.mark.parametrize("kind", OF_STORE)
def test_every_kind_of_a_store_as_a_file(db: Path, tmp_path: Path, kind: str) -> None:
    """An SVG's words are text, with the counts that pandas finds; the line on standard output says so too."""
    options = [] if kind == "results" else ["--threshold", str(THRESHOLD)]
    done = CliRunner().invoke(cli, ["plot", kind, "--db", str(db), "-o", str(tmp_path / "a.svg"), *options])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{tmp_path / 'a.svg'}: ")
    assert done.stdout.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
    text = "\n".join(ElementTree.parse(tmp_path / "a.svg").getroot().itertext())
    with Store.open(db) as store:
        frame = store.frame(text=False)
    if kind in OF_POSITIONS:
        assert f"{len(frame):,} positions" in text
    if kind not in ("results", "recall", "rate", "by-phase", "by-side", "by-men"):
        candidates = int((frame["disagreement"].abs() >= THRESHOLD).sum())
        assert f"{candidates:,} candidates" in text or kind == "survival"
    assert f"{frame.attrs['net']['name']} · {frame.attrs['oracle']['label']} · alpha" in text


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("scatter", marks=pytest.mark.slow),
        "rate",
        "by-label",
        pytest.param("results", marks=pytest.mark.slow),
    ],
)
def test_an_open_store_and_its_path_give_the_same_figure(db: Path, tmp_path: Path, kind: str) -> None:
    with Store.open(db) as store:
        style.save(figures.draw(kind, store), tmp_path / "a.svg")
    style.save(figures.draw(kind, str(db)), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_no_word_is_cut_at_the_edge_of_axes_that_keep_their_aspect(tmp_path: Path) -> None:
    sample = Path(__file__).parents[1] / "data" / "sample.db"
    style.save(figures.draw("results", str(sample)), tmp_path / "a.png")
    paper = imread(tmp_path / "a.png")[..., :3]
    for edge in (paper[:9], paper[-9:], paper[:, :9], paper[:, -9:]):
        assert (edge == 1).all()


def test_a_file_is_whole_or_as_it_was(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = "<?xml version='1.0'?><dc:title>Matplotlib v3</dc:title>"
    (tmp_path / "a.svg").write_text(old)

    def half(self: Figure, stream: IO[bytes], **_: Any) -> None:
        stream.write(b"<svg")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="No space left"):
        CliRunner().invoke(
            cli, ["plot", "by-side", "--db", str(db), "-o", str(tmp_path / "a.svg")], catch_exceptions=False
        )
    assert (tmp_path / "a.svg").read_text() == old
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was never screened, and from whose positions nothing was played."""
    folder = tmp_path_factory.mktemp("bare")
    mine_by_key(random_games(folder / "random.pgn", 8), folder / "bare.db")
    return folder / "bare.db"


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["nonsense"], "no kind of plot nonsense; there are scatter, hexbin", 2),
        (["results", "--threshold", "0.4"], "vr plot results does not take --threshold", 2),
        (["match", "match.pgn", "--db", "a.db"], "vr plot match does not take --db", 2),
        (["match"], "vr plot match reads the PGN of a match: give it, vr plot match SOURCE", 2),
        (["hexbin", "other.db"], "vr plot hexbin reads a store: give it with --db other.db", 2),
        (["hexbin", "-o", "a.gif"], "a.gif: a plot's name ends in .png, .svg or .pdf", 2),
        (["results"], "no decided games from its positions; vr selfplay BOOK --db", 1),
        (["recall"], "nothing was screened with", 1),
        (["survival"], "vr mine --screen auto learns one", 1),
        (["by-label", "--threshold", "2"], "no candidate at 2; give a lower --threshold", 1),
        (["scatter", "--db", "none.db"], "there is no store at none.db", 1),
    ],
)
def test_refused_in_one_line(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    words = arguments if "--db" in arguments or "match" in arguments else [*arguments, "--db", str(bare)]
    with pytest.raises(ValueRepairError) as caught:
        CliRunner().invoke(cli, ["plot", *words], catch_exceptions=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == code
    assert not list(tmp_path.iterdir())


def test_a_threshold_is_a_difference_of_two_q(bare: Path) -> None:
    refused = CliRunner().invoke(cli, ["plot", "rate", "--threshold", "3", "--db", str(bare)])
    assert (refused.exit_code, "above 0 and at most 2" in refused.output) == (2, True)


def test_python_refuses_as_the_command_does(bare: Path) -> None:
    with pytest.raises(UsageError, match="the plot results does not take threshold; it takes alpha, expanded, net"):
        figures.draw("results", bare, threshold=0.5)
    with pytest.raises(UsageError, match="no kind of plot histogram"):
        figures.draw("histogram", bare)
    with Store.open(bare) as store, pytest.raises(UsageError, match="reads the PGN of a match, not a store"):
        figures.draw("match", store)


def test_every_kind_is_in_the_help_and_in_the_docs() -> None:
    shown = CliRunner().invoke(cli, ["plot", "--help"]).stdout
    page = (Path(__file__).parents[1] / "docs" / "plots.md").read_text("utf-8")
    for name, kind in figures.KINDS.items():
        assert f"{name} " in shown
        assert kind.help in shown
        assert f"### {name}\n" in page


def test_few_positions_have_no_line(bare: Path, tmp_path: Path) -> None:
    assert has(figures.draw("hexbin", bare), "lowess")
    mine_by_key(random_games(tmp_path / "random.pgn", 2), tmp_path / "few.db")
    figure = figures.draw("hexbin", tmp_path / "few.db")
    assert has(figure, "density")
    assert not has(figure, "lowess")
