"""The definitions of Gram matrices and the rules on them, in NumPy and Python's integers."""

import numpy as np
from numpy.typing import NDArray

Exact = list[list[int]]


def dot(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """A block's sum: eight lanes in index order, then the lanes in order."""
    size = -(-len(one) // 8) * 8
    products = np.zeros(size)
    products[: len(one)] = one.astype(np.float64) * other.astype(np.float64)
    lanes = np.cumsum(products.reshape(-1, 8), axis=0)[-1]
    return float(np.cumsum(lanes)[-1])


def float_gram(rows: NDArray[np.float32]) -> Exact:
    """Blocks of 1,024 columns, in units of 2^-80."""
    starts = range(0, rows.shape[1], 1024)

    def product(one: NDArray[np.float32], other: NDArray[np.float32]) -> int:
        return sum(round(dot(one[at : at + 1024], other[at : at + 1024]) * 2**80) for at in starts)

    return [[product(one, other) for other in rows] for one in rows]


def whole(gram: Exact) -> Exact:
    """One shift for all, halves up."""
    largest = max(gram[row][row] for row in range(len(gram)))
    shift = max(0, largest.bit_length() - (60 - 2 * len(gram).bit_length()))
    half = 1 << shift >> 1
    return [[(product + half) >> shift for product in line] for line in gram]


def distances(gram: Exact) -> Exact:
    """Squared distances."""
    n = range(len(gram))
    return [[max(0, gram[i][i] + gram[j][j] - 2 * gram[i][j]) for j in n] for i in n]


def nearest(gram: Exact, count: int) -> Exact:
    """1 where the column is one of the row's nearest; of equal ones the first."""
    chosen = []
    for line in distances(gram):
        near = sorted(range(len(line)), key=lambda column: (line[column], column))[:count]
        chosen.append([int(column in near) for column in range(len(line))])
    return chosen


def mix(gram: Exact, chosen: Exact) -> Exact:
    """W G W^T."""
    matrix = np.array(gram, object)
    lines = np.array(chosen, object)
    mixed: Exact = (lines @ matrix @ lines.T).tolist()
    return mixed


def krum_order(gram: Exact, near: int) -> list[int]:
    """By the sums of the distances to the nearest others."""
    apart = distances(gram)
    others = [sorted(d for j, d in enumerate(line) if j != i) for i, line in enumerate(apart)]
    scores = [sum(line[:near]) for line in others]
    return sorted(range(len(gram)), key=lambda row: (scores[row], row))


def bulyan_order(gram: Exact, f: int) -> list[int]:
    """Krum's first, again and again among those left."""
    left, taken = list(range(len(gram))), []
    for _ in range(len(gram) - 2 * f):
        part = [[gram[i][j] for j in left] for i in left]
        taken.append(left.pop(krum_order(part, max(1, len(left) - f - 2))[0]))
    return taken


def near_median(rows: NDArray[np.float32], keep: int) -> NDArray[np.float32]:
    """Column by column, from sorted values."""
    means = []
    for column in np.sort(rows.astype(np.float64), axis=0).T:
        middle = (column[(len(column) - 1) // 2] + column[len(column) // 2]) / 2
        first = 0
        while first + keep < len(column) and column[first + keep] - middle < middle - column[first]:
            first += 1
        means.append(np.cumsum(column[first : first + keep])[-1] / keep)
    return np.array(means, np.float32)


def weighted_mean(rows: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Added in order in float64."""
    products = rows.astype(np.float64) * weights.astype(np.float64)[:, None]
    total = np.cumsum(weights.astype(np.float64))[-1]
    means: NDArray[np.float32] = (np.cumsum(products, axis=0)[-1] / total).astype(np.float32)
    return means
