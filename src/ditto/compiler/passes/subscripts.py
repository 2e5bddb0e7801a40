"""Contractions as einsum writes them."""

from ditto.plan import Graph


def subscripts(graph: Graph, i: int) -> str:
    """A dot_general as einsum writes it."""
    node = graph.nodes[i]
    (left_sum, right_sum), (left_batch, right_batch) = node.params["dimension_numbers"]
    a, b = (graph.nodes[u] for u in node.inputs)
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    left = [next(letters) for _ in a.shape]
    right: list[str | None] = [None] * len(b.shape)
    for x, y in zip([*left_sum, *left_batch], [*right_sum, *right_batch], strict=True):
        right[y] = left[x]
    right_text = [letter or next(letters) for letter in right]
    batch = [left[x] for x in left_batch]
    taken = {*left_batch, *left_sum}
    free_left = [left[x] for x in range(len(left)) if x not in taken]
    taken = {*right_batch, *right_sum}
    free_right = [right_text[y] for y in range(len(right)) if y not in taken]
    result = "".join([*batch, *free_left, *free_right])
    return f"{''.join(left)},{''.join(right_text)}->{result}"
