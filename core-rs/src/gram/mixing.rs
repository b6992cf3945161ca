//! Nearest-neighbour mixing (NNM, arXiv:2302.01772) in Gram space, in exact integers.
//!
//! Each contribution becomes the sum of its m nearest, itself among them. With W the matrix of zeros and
//! ones that says which, the Gram matrix of the sums is `W G W^T`. A product by W adds, for every 8 of its
//! columns, one of 256 sums of 8 rows, which are made first: n^3 / 8 additions.

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use super::{exact::mirror, whole::distance};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, compiled, dispatch},
    threads,
};

mod scalar {
    pub(super) use super::add_sums as add;
}

compiled! { avx2, avx512, neon: fn add(tables: &[Table; TABLES], codes: [&[u8]; TABLES], room: &mut [Line]) = add_sums; }

/// Columns that are added at once.
const WIDTH: usize = 32;
/// Rows of the summands whose subsets have a table.
const GROUP: usize = 8;
/// Tables that are used at once.
const TABLES: usize = 4;
/// Rows of a product that one thread computes, at least: they share the tables.
const LEAST_ROWS: usize = 256;

type Line = [i64; WIDTH];
type Table = Vec<Line>;

/// Writes W, [n, n]: 1 where the column is one of the row's `near` nearest; of equally near ones the first.
///
/// # Errors
/// [`CoreError::Length`] for matrices that do not fit.
pub fn nearest(
    gram: &[i64],
    count: usize,
    near: usize,
    chosen: &mut [u8],
) -> Result<(), CoreError> {
    check_length("gram", count * count, gram.len())?;
    check_length("chosen", count * count, chosen.len())?;
    let lines = chosen.par_chunks_mut(count.max(1)).enumerate();
    threads::for_each_with(lines, 1, Vec::new, |room, (row, chosen)| {
        room.clear();
        room.extend((0..count).map(|column| (distance(gram, count, row, column), column)));
        if near < count {
            room.select_nth_unstable(near);
        }
        chosen.fill(0);
        for (_, column) in &room[..near.min(count)] {
            chosen[*column] = 1;
        }
    })
}

/// Writes the Gram matrix of the mixed contributions, `W G W^T`; exact if `gram` is of
/// [`super::whole::to_whole`].
///
/// # Errors
/// [`CoreError::Length`] for matrices that do not fit.
pub fn mix(
    isa: Isa,
    gram: &[i64],
    chosen: &[u8],
    count: usize,
    mixed: &mut [i64],
) -> Result<(), CoreError> {
    check_length("gram", count * count, gram.len())?;
    check_length("chosen", count * count, chosen.len())?;
    check_length("mixed", count * count, mixed.len())?;
    let codes = codes(chosen, count);
    multiply(isa, &codes, gram, count, mixed)?;
    let mut half = mixed.to_vec();
    transpose(&mut half, count);
    multiply(isa, &codes, &half, count, mixed)?;
    mirror(mixed, count);
    Ok(())
}

/// For each group of columns of W a byte for every row, its bits in their order; whole sets of tables.
fn codes(chosen: &[u8], count: usize) -> Vec<u8> {
    let groups = count.div_ceil(GROUP).next_multiple_of(TABLES);
    let mut codes = vec![0; groups * count];
    for (row, line) in chosen.chunks_exact(count.max(1)).enumerate() {
        for (group, bits) in line.chunks(GROUP).enumerate() {
            let bits = bits.iter().enumerate();
            codes[group * count + row] = bits.fold(0, |code, (at, bit)| code | (bit & 1) << at);
        }
    }
    codes
}

fn transpose(matrix: &mut [i64], count: usize) {
    for row in 1..count {
        for column in 0..row {
            matrix.swap(row * count + column, column * count + row);
        }
    }
}

/// Writes W times a matrix.
fn multiply(
    isa: Isa,
    codes: &[u8],
    matrix: &[i64],
    count: usize,
    product: &mut [i64],
) -> Result<(), CoreError> {
    let rows = count.div_ceil(threads::count()).max(LEAST_ROWS);
    let parts = product.par_chunks_mut(rows * count).enumerate();
    let room = || {
        (
            vec![[0; WIDTH]; rows],
            std::array::from_fn(|_| vec![[0; WIDTH]; 256]),
        )
    };
    threads::for_each_with(parts, 1, room, |(lines, tables), (part, product)| {
        let height = product.len() / count;
        let rows = part * rows..part * rows + height;
        for left in (0..count).step_by(WIDTH) {
            let width = WIDTH.min(count - left);
            lines.fill([0; WIDTH]);
            for (set, codes) in codes.chunks_exact(TABLES * count).enumerate() {
                for (at, table) in tables.iter_mut().enumerate() {
                    fill(
                        matrix,
                        count,
                        (TABLES * set + at) * GROUP,
                        left..left + width,
                        table,
                    );
                }
                let codes = std::array::from_fn(|at| &codes[at * count..][rows.clone()]);
                dispatch!(isa, add(tables, codes, &mut lines[..height]));
            }
            for (line, product) in lines.iter().zip(product.chunks_exact_mut(count)) {
                product[left..left + width].copy_from_slice(&line[..width]);
            }
        }
    })
}

/// The sums of all subsets of 8 rows.
fn fill(
    matrix: &[i64],
    count: usize,
    first: usize,
    columns: std::ops::Range<usize>,
    table: &mut Table,
) {
    table[0] = [0; WIDTH];
    for (bit, row) in (first..first + GROUP).enumerate() {
        let mut line = [0; WIDTH];
        if row < count {
            let values = &matrix[row * count..][columns.clone()];
            line[..values.len()].copy_from_slice(values);
        }
        let (known, new) = table.split_at_mut(1 << bit);
        for (new, known) in new.iter_mut().zip(known) {
            for ((new, known), value) in new.iter_mut().zip(&*known).zip(line) {
                *new = known + value;
            }
        }
    }
}

/// Adds to each row the entries of the tables that its codes name.
#[inline(always)]
fn add_sums(tables: &[Table; TABLES], codes: [&[u8]; TABLES], room: &mut [Line]) {
    let tables: [&[Line; 256]; TABLES] =
        std::array::from_fn(|at| tables[at].as_slice().first_chunk().expect("256 subsets"));
    let codes = codes.map(|codes| &codes[..room.len()]);
    for (row, line) in room.iter_mut().enumerate() {
        let mut sums = *line; // in registers
        for (table, codes) in tables.iter().zip(codes) {
            for (sum, value) in sums.iter_mut().zip(&table[usize::from(codes[row])]) {
                *sum += value;
            }
        }
        *line = sums;
    }
}
