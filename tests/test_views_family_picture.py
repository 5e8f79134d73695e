"""The picture of a family: every position has a place of its own, as many plies from its parent as it is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from valuerepair.report.family import Leaf, places

STEPS = st.tuples(
    st.integers(0, 60), st.sampled_from(["line", "parent", "child", "game"]), st.integers(1, 12), st.booleans()
)


def leaf(after: int, level: int, step: str | None, distance: int, *, later: bool) -> Leaf:
    unknown = None, None, None, None
    return Leaf(1, 1, level, after, step, distance, 1, later or step in ("line", "child"), "", "", *unknown, "none")


def family(reached: list[tuple[int, str, int, bool]]) -> list[Leaf]:
    """Leaves in the order of a tree are not needed: only that each comes behind its parent."""
    leaves = [leaf(-1, 0, None, 0, later=True)]
    for after, step, distance, later in reached:
        parent = after % len(leaves)
        leaves.append(leaf(parent, leaves[parent].level + 1, step, distance, later=later and step == "game"))
    return leaves


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_no_two_stand_in_one_place_and_each_as_far_as_it_is(reached: list[tuple[int, str, int, bool]]) -> None:
    leaves = family(reached)
    placed = places(leaves)
    assert len({(place.ply, place.lane) for place in placed}) == len(leaves)
    assert placed[0] == (0, 0, -1)
    for place, leaf in zip(placed[1:], leaves[1:], strict=True):
        far = 1 if leaf.step == "child" else leaf.distance or 0
        assert place.ply - placed[leaf.after].ply == (far if leaf.later else -far)
        before = placed[place.after]
        # A stroke comes from the parent, or from a sibling nearer to it on the same lane.
        assert place.after == leaf.after or (
            before.lane == place.lane and leaves[place.after].after == leaf.after and before.ply != place.ply
        )


def test_a_usual_family_has_the_game_a_line_and_children_side_by_side() -> None:
    line = [(0, "line", k, True) for k in range(1, 7)]
    children = [(0, "child", k, True) for k in (1, 2, 3)]
    of_child = [(7, "line", k, True) for k in (1, 2)]
    game = [(0, "parent", k, False) for k in (1, 2, 4)] + [(0, "game", 3, True)]
    placed = places(family([*line, *children, *of_child, *game]))
    assert [place[:2] for place in placed[1:7]] == [(k, -1) for k in range(1, 7)]
    assert [place[:2] for place in placed[7:10]] == [(1, 1), (1, 2), (1, 3)]
    assert [place[:2] for place in placed[10:12]] == [(2, 1), (3, 1)]
    assert [place[:2] for place in placed[12:]] == [(-1, 0), (-2, 0), (-4, 0), (3, 0)]
    assert [place.after for place in placed[1:7]] == [0, 1, 2, 3, 4, 5]
    # What another position of the game led to stands between them.
    further = family([(0, "game", 6, True), (0, "game", 3, True), (1, "parent", 1, False), (1, "parent", 2, False)])
    assert [place[:2] for place in places(further)] == [(0, 0), (6, 0), (3, 0), (5, 0), (4, 0)]
