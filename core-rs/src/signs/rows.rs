//! What every instruction set does alike: walking along a row in chunks of 32 values.
//!
//! A file for an instruction set defines `Lanes` (32 float32 in registers), `splat`, `to_lanes`,
//! `from_lanes`, `pack_chunk`, `apply_chunk` and `unpack_chunk`, and has [`row_kernels!`] and
//! [`pack_words!`], or with a `store_line` [`pack_lines!`], write the functions of a row around them.

use crate::weights::{CHUNK, Weight};

/// Prefetch distance.
pub(super) const AHEAD_BYTES: usize = 4096;

/// One row to pack; the mask is empty where none is wanted.
pub(super) struct PackRow<'a, B, T> {
    pub base: &'a [B],
    pub tuned: &'a [T],
    pub bits: &'a mut [u8],
    pub mask: &'a mut [u8],
}

/// One row to apply; the mask is empty where there is none.
pub(super) struct ApplyRow<'a, W> {
    pub weights: &'a mut [W],
    pub bits: &'a [u8],
    pub mask: &'a [u8],
    pub scales: &'a [f32],
}

/// A row's last values, filled up with zeros.
pub(super) fn padded<W: Weight>(rest: &[W]) -> [W; CHUNK] {
    let mut chunk = [W::default(); CHUNK];
    chunk[..rest.len()].copy_from_slice(rest);
    chunk
}

/// The bits of chunk `index`; bits past the plane's end read as 0.
#[inline]
pub(super) fn word(plane: &[u8], index: usize) -> u32 {
    let rest = &plane[4 * index..];
    if let Some(bytes) = rest.first_chunk::<4>() {
        return u32::from_le_bytes(*bytes);
    }
    let mut bytes = [0; 4];
    bytes[..rest.len()].copy_from_slice(rest);
    u32::from_le_bytes(bytes)
}

/// As `word`, but all ones for an empty plane.
#[inline]
pub(super) fn mask_word(plane: &[u8], index: usize) -> u32 {
    if plane.is_empty() {
        return u32::MAX;
    }
    word(plane, index)
}

/// Writes the bits of chunk `index`, as far as the plane goes; an empty plane takes nothing.
#[inline]
pub(super) fn write_word(plane: &mut [u8], index: usize, word: u32) {
    let Some(rest) = plane.get_mut(4 * index..) else {
        return;
    };
    let bytes = word.to_le_bytes();
    if let Some(room) = rest.first_chunk_mut::<4>() {
        *room = bytes;
        return;
    }
    rest.copy_from_slice(&bytes[..rest.len()]);
}

/// Lanes added in order in float64.
pub(super) fn sum_in_order(lanes: &[f32; CHUNK]) -> f64 {
    lanes.iter().fold(0.0, |sum, lane| sum + f64::from(*lane))
}

/// Writes `pack_row`, `pack_columns`, `apply_row`, `apply_pair`, `apply_columns` and `unpack_row` for
/// the instruction set whose chunk functions are in scope; the argument is its `target_feature`.
macro_rules! row_kernels {
    ($(#[$feature:meta])*) => {
        /// Packs one row; `sums` gets the sum of |d| of each group of `group` values.
        $(#[$feature])*
        pub(super) fn pack_row<B: Weight, T: Weight>(
            row: PackRow<'_, B, T>,
            group: usize,
            sums: &mut [f64],
        ) {
            let cols = row.base.len();
            for (index, sum) in sums.iter_mut().enumerate() {
                let stop = cols.min((index + 1).saturating_mul(group));
                *sum = 0.0;
                for start in (index * group..stop).step_by(BLOCK) {
                    let end = stop.min(start + BLOCK);
                    let bytes = start / 8..end.div_ceil(8);
                    *sum += pack_block(PackRow {
                        base: &row.base[start..end],
                        tuned: &row.tuned[start..end],
                        bits: &mut row.bits[bytes.clone()],
                        mask: row.mask.get_mut(bytes).unwrap_or_default(),
                    });
                }
            }
        }

        /// Packs one block and returns its sum.
        $(#[$feature])*
        fn pack_block<B: Weight, T: Weight>(block: PackRow<'_, B, T>) -> f64 {
            let mut lanes = splat(0.0);
            let (bases, base_rest) = block.base.as_chunks::<CHUNK>();
            let (tuneds, tuned_rest) = block.tuned.as_chunks::<CHUNK>();
            if block.mask.is_empty() {
                let words = block.bits.as_chunks_mut::<4>().0;
                pack_words(bases, tuneds, words, &mut lanes);
            } else {
                for (index, (base, tuned)) in bases.iter().zip(tuneds).enumerate() {
                    let (plus, nonzero) = pack_chunk::<B, T, true>(base, tuned, &mut lanes);
                    write_word(block.bits, index, plus);
                    write_word(block.mask, index, nonzero);
                }
            }
            if !base_rest.is_empty() {
                let (base, tuned) = (padded(base_rest), padded(tuned_rest));
                let (plus, nonzero) = pack_chunk::<B, T, true>(&base, &tuned, &mut lanes);
                write_word(block.bits, bases.len(), plus);
                write_word(block.mask, bases.len(), nonzero);
            }
            let mut values = [0.0; CHUNK];
            from_lanes::<B, T>(lanes, &mut values);
            sum_in_order(&values)
        }

        /// Packs one row and adds each |d| to the sum of its column.
        $(#[$feature])*
        pub(super) fn pack_columns<B: Weight, T: Weight>(
            row: PackRow<'_, B, T>,
            sums: &mut [f32],
        ) {
            let (sums, sum_rest) = sums.as_chunks_mut::<CHUNK>();
            let (bases, base_rest) = row.base.as_chunks::<CHUNK>();
            let (tuneds, tuned_rest) = row.tuned.as_chunks::<CHUNK>();
            for (index, (base, tuned)) in bases.iter().zip(tuneds).enumerate() {
                let mut lanes = to_lanes::<B, T>(&sums[index]);
                let (plus, nonzero) = pack_chunk::<B, T, true>(base, tuned, &mut lanes);
                from_lanes::<B, T>(lanes, &mut sums[index]);
                write_word(row.bits, index, plus);
                write_word(row.mask, index, nonzero);
            }
            if !base_rest.is_empty() {
                let (base, tuned) = (padded(base_rest), padded(tuned_rest));
                let mut values = padded(sum_rest);
                let mut lanes = to_lanes::<B, T>(&values);
                let (plus, nonzero) = pack_chunk::<B, T, true>(&base, &tuned, &mut lanes);
                from_lanes::<B, T>(lanes, &mut values);
                sum_rest.copy_from_slice(&values[..sum_rest.len()]);
                write_word(row.bits, bases.len(), plus);
                write_word(row.mask, bases.len(), nonzero);
            }
        }

        /// Applies one row; each group of `group` weights has its scale.
        $(#[$feature])*
        pub(super) fn apply_row<W: Weight>(row: ApplyRow<'_, W>, group: usize) {
            let groups = row.weights.chunks_mut(group).zip(row.bits.chunks(group.div_ceil(8)));
            for (index, ((weights, bits), scale)) in groups.zip(row.scales).enumerate() {
                let scale = splat(*scale);
                let start = index * group / 8;
                let mask = row.mask.get(start..start + bits.len()).unwrap_or_default();
                let (chunks, rest) = weights.as_chunks_mut::<CHUNK>();
                if mask.is_empty() {
                    for (chunk, word) in chunks.iter_mut().zip(bits.as_chunks::<4>().0) {
                        prefetch::behind(chunk, AHEAD_BYTES);
                        apply_chunk(chunk, u32::from_le_bytes(*word), u32::MAX, scale);
                    }
                } else {
                    for (index, chunk) in chunks.iter_mut().enumerate() {
                        prefetch::behind(chunk, AHEAD_BYTES);
                        apply_chunk(chunk, word(bits, index), word(mask, index), scale);
                    }
                }
                if !rest.is_empty() {
                    let (mut chunk, index) = (padded(rest), chunks.len());
                    apply_chunk(&mut chunk, word(bits, index), mask_word(mask, index), scale);
                    rest.copy_from_slice(&chunk[..rest.len()]);
                }
            }
        }

        /// Applies two rows side by side, each with one scale and without a mask: memory comes
        /// faster from two pages at once.
        $(#[$feature])*
        pub(super) fn apply_pair<W: Weight>(rows: [ApplyRow<'_, W>; 2]) {
            let cols = rows[0].weights.len();
            let whole = cols / CHUNK * CHUNK;
            let [(firsts, first_words, first_scale), (seconds, second_words, second_scale)] =
                rows.map(|row| {
                    let (weights, rest) = row.weights.split_at_mut(whole);
                    let (bits, rest_bits) = row.bits.split_at(whole / 8);
                    let scale = splat(row.scales[0]);
                    apply_row(ApplyRow { weights: rest, bits: rest_bits, ..row }, cols);
                    (weights.as_chunks_mut().0, bits.as_chunks().0, scale)
                });
            let chunks = firsts.iter_mut().zip(seconds);
            let words = first_words.iter().zip(second_words);
            for (at, ((first, second), words)) in chunks.zip(words).enumerate() {
                // Near the rows' end: the same place of the next two.
                let inside = (at * CHUNK * size_of::<W>() + AHEAD_BYTES) < whole * size_of::<W>();
                let ahead = AHEAD_BYTES + if inside { 0 } else { cols * size_of::<W>() };
                prefetch::behind(first, ahead);
                prefetch::behind(second, ahead);
                apply_chunk(first, u32::from_le_bytes(*words.0), u32::MAX, first_scale);
                apply_chunk(second, u32::from_le_bytes(*words.1), u32::MAX, second_scale);
            }
        }

        /// Applies one row with a scale for each column.
        $(#[$feature])*
        pub(super) fn apply_columns<W: Weight>(row: ApplyRow<'_, W>) {
            let (scales, scale_rest) = row.scales.as_chunks::<CHUNK>();
            let (chunks, rest) = row.weights.as_chunks_mut::<CHUNK>();
            for (index, (chunk, scale)) in chunks.iter_mut().zip(scales).enumerate() {
                let scale = to_lanes::<W, W>(scale);
                prefetch::behind(chunk, AHEAD_BYTES);
                apply_chunk(chunk, word(row.bits, index), mask_word(row.mask, index), scale);
            }
            if !rest.is_empty() {
                let (mut chunk, index) = (padded(rest), chunks.len());
                let scale = to_lanes::<W, W>(&padded(scale_rest));
                apply_chunk(&mut chunk, word(row.bits, index), mask_word(row.mask, index), scale);
                rest.copy_from_slice(&chunk[..rest.len()]);
            }
        }

        /// Unpacks one row.
        $(#[$feature])*
        pub(super) fn unpack_row(signs: &mut [f32], bits: &[u8], mask: &[u8]) {
            let (chunks, rest) = signs.as_chunks_mut::<CHUNK>();
            for (index, chunk) in chunks.iter_mut().enumerate() {
                unpack_chunk(chunk, word(bits, index), mask_word(mask, index));
            }
            if !rest.is_empty() {
                let (mut chunk, index) = ([0.0; CHUNK], chunks.len());
                unpack_chunk(&mut chunk, word(bits, index), mask_word(mask, index));
                rest.copy_from_slice(&chunk[..rest.len()]);
            }
        }
    };
}
pub(super) use row_kernels;

/// Writes `pack_words` for an instruction set that packs whole chunks word by word.
macro_rules! pack_words {
    ($(#[$feature:meta])*) => {
        $(#[$feature])*
        fn pack_words<B: Weight, T: Weight>(
            bases: &[[B; CHUNK]],
            tuneds: &[[T; CHUNK]],
            words: &mut [[u8; 4]],
            lanes: &mut Lanes,
        ) {
            for ((base, tuned), word) in bases.iter().zip(tuneds).zip(words) {
                *word = pack_chunk::<B, T, false>(base, tuned, lanes).0.to_le_bytes();
            }
        }
    };
}
pub(super) use pack_words;

/// Writes `pack_words` for an instruction set that stores sixteen words of bits, a cache line of them,
/// at once by its `store_line`: each store by itself would keep a place in the processor's store
/// buffer until the line is there.
#[cfg(target_arch = "x86_64")]
macro_rules! pack_lines {
    ($(#[$feature:meta])*) => {
        $(#[$feature])*
        fn pack_words<B: Weight, T: Weight>(
            bases: &[[B; CHUNK]],
            tuneds: &[[T; CHUNK]],
            words: &mut [[u8; 4]],
            lanes: &mut Lanes,
        ) {
            let whole = bases.len() / 16 * 16;
            let (whole_bases, bases) = bases.split_at(whole);
            let (whole_tuneds, tuneds) = tuneds.split_at(whole);
            let (lines, words) = words.split_at_mut(whole);
            // Not as arrays of sixteen: written out sixteen times, loads first, the loop is 7 % slower.
            let pairs = whole_bases.chunks(16).zip(whole_tuneds.chunks(16));
            for ((bases, tuneds), line) in pairs.zip(lines.as_chunks_mut().0) {
                let mut bits = [[0; 4]; 16];
                for ((base, tuned), word) in bases.iter().zip(tuneds).zip(&mut bits) {
                    *word = pack_chunk::<B, T, false>(base, tuned, lanes).0.to_le_bytes();
                }
                store_line(&bits, line);
            }
            for ((base, tuned), word) in bases.iter().zip(tuneds).zip(words) {
                *word = pack_chunk::<B, T, false>(base, tuned, lanes).0.to_le_bytes();
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use pack_lines;
