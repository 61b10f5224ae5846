"""The reach of activities that run each other, compared with counting them one by one."""

from hypothesis import given
from hypothesis import strategies as st

from execution.activities.nesting import ActivityExtent, ActivityNode, extents


@st.composite
def nests(draw) -> dict[int, ActivityNode]:
    """Each runs only some of those before it."""
    nodes: dict[int, ActivityNode] = {}
    for which in range(draw(st.integers(1, 7))):
        parts = draw(st.lists(st.sampled_from([*nodes, 99]), max_size=3)) if nodes else []
        nodes[which] = ActivityNode(len(parts) + draw(st.integers(0, 4)), tuple(parts))
    return nodes


def counted_out(nodes: dict[int, ActivityNode], which: int) -> tuple[int, int]:
    node = nodes.get(which, ActivityNode(0))
    inner = [counted_out(nodes, part) for part in node.parts]
    return 1 + max([depth for depth, _ in inner], default=0), node.steps + sum(steps for _, steps in inner)


@given(nests())
def test_depth_and_steps_are_those_of_the_whole_tree(nodes):
    assert extents(nodes) == {which: ActivityExtent(*counted_out(nodes, which)) for which in nodes} | (
        {99: ActivityExtent(1, 0)} if any(99 in node.parts for node in nodes.values()) else {}
    )


@given(nests(), st.data())
def test_what_runs_itself_has_no_extent_and_neither_has_what_runs_it(nodes, data):
    lower = data.draw(st.sampled_from([*nodes]))
    upper = data.draw(st.sampled_from([which for which in nodes if which >= lower]))
    looped = nodes | {
        lower: ActivityNode(nodes[lower].steps + 1, (*nodes[lower].parts, upper)),
        upper: ActivityNode(nodes[upper].steps + 1, (*nodes[upper].parts, lower)),
    }
    extent_of = extents(looped)

    def reaches_the_loop(which: int, seen_names: frozenset[int] = frozenset()) -> bool:
        return which in (lower, upper) or any(
            part not in seen_names and reaches_the_loop(part, seen_names | {part})
            for part in looped.get(which, ActivityNode(0)).parts
        )

    for which in nodes:
        assert (extent_of[which] is None) == reaches_the_loop(which)
    assert extents({}) == {}


def test_twenty_steps_eight_deep_are_counted_at_once():
    nodes = {which: ActivityNode(20, (which - 1,) * 20 if which else ()) for which in range(8)}
    assert extents(nodes)[7] == ActivityExtent(8, sum(20**power for power in range(1, 9)))
