//! The definition of a block's scalar products: a few rows with a few others.

/// Sums that a product is added to in turn.
pub(super) const LANES: usize = 8;
/// Rows on either side of a tile.
pub(super) const TILE: usize = 4;

/// A sum for each pair.
pub(super) type Tile = [[f64; TILE]; TILE];

/// Two rows with two at a time: their sums fit the registers of every instruction set.
#[inline(always)]
pub(super) fn multiply_small(above: &[&[f32]], beside: &[&[f32]], tile: &mut Tile) {
    for (row, above) in above.chunks(2).enumerate() {
        for (column, beside) in beside.chunks(2).enumerate() {
            let sums = products::<2>(&whole(above), &whole(beside));
            for (line, sums) in tile[2 * row..].iter_mut().zip(sums) {
                line[2 * column..2 * column + 2].copy_from_slice(&sums);
            }
        }
    }
}

/// So many rows; the last one stands for those that are not there.
#[inline(always)]
pub(super) fn whole<'a, const SIDE: usize>(rows: &[&'a [f32]]) -> [&'a [f32]; SIDE] {
    std::array::from_fn(|row| rows[row.min(rows.len() - 1)])
}

/// The scalar products of rows of whole lanes.
#[inline(always)]
pub(super) fn products<const SIDE: usize>(
    above: &[&[f32]; SIDE],
    beside: &[&[f32]; SIDE],
) -> [[f64; SIDE]; SIDE] {
    let above = above.map(|row| row.as_chunks::<LANES>().0);
    let beside = beside.map(|row| row.as_chunks::<LANES>().0);
    let steps = above[0].len();
    let (above, beside) = (
        above.map(|row| &row[..steps]),
        beside.map(|row| &row[..steps]),
    );
    let mut lanes = [[[0.0f64; LANES]; SIDE]; SIDE];
    for step in 0..steps {
        let right = beside.map(|row| row[step].map(f64::from));
        for (lanes, above) in lanes.iter_mut().zip(above) {
            let left = above[step].map(f64::from);
            for (lanes, right) in lanes.iter_mut().zip(&right) {
                for ((lane, left), right) in lanes.iter_mut().zip(left).zip(right) {
                    *lane += left * right;
                }
            }
        }
    }
    lanes.map(|row| row.map(|lanes| lanes.into_iter().fold(0.0, |sum, lane| sum + lane)))
}
